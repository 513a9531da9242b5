package cli

import (
	"reflect"
	"strings"
)

// settings is the configuration, in the shape of its file. Flags, environment
// variables, help and the check of the example file are derived from it. A field's
// tags describe a setting:
//
//	toml     its key in the file
//	flag     its flag, if that is not derived from its keys
//	default  its default, written like the value of the flag
//	arg      the placeholder in the help, if the type does not imply it
//	for      the only command that accepts it
//	example  a value, for messages, if it is a table
//	help     what it does
//
// The environment variable is derived from the flag: --exec-timeout, WARMBOX_EXEC_TIMEOUT.
type settings struct {
	BoxSettings

	Env map[string]string `toml:"env" arg:"TABLE" example:"{ GOFLAGS = \"-mod=mod\" }" help:"environment variables for every command"`

	Mounts []mountSetting `toml:"mounts" arg:"TABLES" example:"source = \"/home/me/data\"" help:"more files and directories of this machine that boxes see, each with source, target and mode (ro or rw)"`

	Docker struct {
		Host string `toml:"host" arg:"URL" help:"the engine, such as unix:///var/run/docker.sock; if not set, warmbox tries the usual places"`
		Path string `toml:"path" default:"auto" arg:"PATH" help:"how the server reaches boxes: socket, relay, or auto (whichever works)"`
	} `toml:"docker"`

	Images struct {
		Default string   `toml:"default" flag:"image" default:"warmbox/sandbox:slim" arg:"IMAGE" help:"image of a box if its call names no image"`
		Allow   []string `toml:"allow" help:"other images that calls may name, as patterns: golang:*,ghcr.io/acme/*"`
	} `toml:"images"`

	Pool struct {
		Warm        int      `toml:"warm" default:"1" help:"how many idle boxes of the default image the pool holds; the pool is filled when the first client sends its first message; 0: no pool"`
		Images      []string `toml:"images" help:"images besides the default image; the pool also holds that many boxes of each"`
		Max         int      `toml:"max" default:"8" help:"maximum number of boxes in the pool, after a burst of starts"`
		IdleTimeout duration `toml:"idle_timeout" default:"30m" help:"after this time in which no call started a box and no client connected, the boxes in the pool are removed; 0: never"`
		MaxLifetime duration `toml:"max_lifetime" default:"1h" help:"age at which a box in the pool is replaced by a new box, from the current version of its image; 0: never"`
		MaxUses     int      `toml:"max_uses" default:"0" help:"after this many commands a client's default box is replaced; 0: never"`
	} `toml:"pool"`

	Exec struct {
		Timeout      duration `toml:"timeout" default:"10m" help:"time limit of a command, unless its call sets another limit"`
		Wait         duration `toml:"wait" default:"45s" help:"how long a call waits for a command before it replies that the command still runs"`
		OnDisconnect string   `toml:"on_disconnect" default:"kill" arg:"MODE" help:"what happens to a command if its client disconnects during an HTTP call: kill, or run-on"`
		MaxRuns      int      `toml:"max_runs" default:"256" help:"maximum number of commands that run at the same time, for all clients together"`
		Memory       size     `toml:"memory" default:"2g" help:"memory of a box, which has no swap"`
		CPU          float64  `toml:"cpu" default:"2" help:"cores of a box, at most as many as the engine has"`
		Pids         int64    `toml:"pids" default:"512" help:"maximum number of processes and threads of a box"`
		SpareShells  int      `toml:"spare_shells" default:"1" help:"how many spare shells a box has, so that commands start sooner; after a burst it has a few more; 0: none"`
	} `toml:"exec"`

	Commands struct {
		Allow    []string            `toml:"allow" flag:"exec-whitelist" help:"allowlist: the only commands that may run, by their first words, such as go test,ls; default stands for a list of usual commands; if not set, all commands may run"`
		Deny     []string            `toml:"deny" help:"commands that may not run although the allowlist allows them"`
		OnDeny   string              `toml:"on_deny" default:"deny" arg:"MODE" help:"what happens to a command that is not on the allowlist: deny, or ask the user for approval, if the client supports that"`
		Release  []string            `toml:"release" arg:"NAMES" help:"if commands are checked against a list: variables that they may set although these can choose which code runs, such as GOFLAGS"`
		Examples map[string][]string `toml:"examples" arg:"TABLE" example:"{ \"go test\" = [\"go test ./...\"] }" help:"example commands for entries of commands.allow and commands.deny; warmbox checks at its start that an entry of allow allows its examples, and that an entry of deny denies them"`
	} `toml:"commands"`

	Shims struct {
		Commands    []string          `toml:"commands" arg:"NAMES" help:"programs in front of which boxes have shims, such as cat,grep: they limit calls by name, and the audit file records these; they are no boundary, since a command can call a program by its path"`
		Deny        map[string]string `toml:"deny" arg:"TABLE" example:"{ rm = \"Move files to .trash instead.\" }" help:"programs that calls by name do not run, each with the sentence that the model reads; they have shims too"`
		Timeout     duration          `toml:"timeout" default:"0s" help:"time limit of each call of a shim; 0: none"`
		OutputBytes size              `toml:"output_bytes" default:"4000" help:"how much a call of a shim prints if that goes to the output of the command itself, not to a pipe or a file; 0: no limit"`
		OutputLines int64             `toml:"output_lines" default:"200" help:"likewise, in lines; 0: no limit"`
	} `toml:"shims"`

	Output struct {
		Whole   size   `toml:"whole" default:"8000" help:"up to this size a reply shows all output of a command; of longer output it shows a summary and an excerpt"`
		Excerpt size   `toml:"excerpt" default:"4000" help:"size of the excerpt of longer output; it grows up to whole if failures need that, or if at least two thirds are then shown"`
		Max     size   `toml:"max" default:"100000" help:"maximum size of the output that a call may request with maxBytes"`
		Replies string `toml:"replies" flag:"replies" default:"auto" arg:"FORM" help:"which form of a reply has everything: text, structured, both, or auto (what the client shows its model; both for a client that warmbox does not know)"`
	} `toml:"output"`

	Summary struct {
		Provider   string   `toml:"provider" default:"builtin" arg:"NAME" help:"what summarises long output: builtin, anthropic, openai (or a server with its API), command, client or none"`
		Model      string   `toml:"model" arg:"NAME" help:"name of the model, for anthropic or openai"`
		BaseURL    string   `toml:"base_url" arg:"URL" help:"URL of the API, for the providers anthropic and openai; if not set, that provider's official URL; for Ollama, the provider openai with http://localhost:11434/v1"`
		APIKeyEnv  string   `toml:"api_key_env" arg:"NAME" help:"name of the environment variable that holds the provider's API key"`
		APIKeyFile string   `toml:"api_key_file" arg:"FILE" help:"file with the provider's API key; only you may be able to read it"`
		Command    []string `toml:"command" help:"for the provider command: a program and its arguments; it reads the prompt and prints the summary"`
		Timeout    duration `toml:"timeout" default:"5s" help:"how long to wait for a model's summary; then the built-in summary is used"`
		MaxInput   size     `toml:"max_input" default:"16k" help:"how much of an output is sent to a model for its summary"`
		PerMinute  int      `toml:"per_minute" default:"20" help:"maximum number of summaries that are requested from a model in a minute"`
	} `toml:"summary"`

	Log struct {
		Level    string   `toml:"level" default:"info" arg:"LEVEL" help:"lowest level of messages in warmbox's own log: debug, info, warn or error"`
		Format   string   `toml:"format" default:"text" arg:"FORMAT" help:"format of warmbox's own log: text, or json"`
		File     string   `toml:"file" arg:"FILE" help:"file for warmbox's own log; if not set, standard error"`
		Dir      string   `toml:"dir" arg:"DIR" help:"directory for the raw output of commands; if not set, warmbox/logs in the user's state directory"`
		MaxRun   size     `toml:"max_run" default:"64m" help:"how much raw output of one command is stored; further output is only counted"`
		MaxTotal size     `toml:"max_total" default:"1g" help:"how much raw output of all commands is stored; above that, the oldest is deleted"`
		MaxAge   duration `toml:"max_age" default:"168h" help:"how long raw output is stored"`
	} `toml:"log"`

	Audit struct {
		File   string `toml:"file" arg:"FILE" help:"audit file, to which a line is appended when a box or a command starts or ends; if not set, no audit"`
		Format string `toml:"format" default:"json" arg:"FORMAT" help:"format of the audit file: json, or line, which has six fields separated by vertical bars: time, session, event, command, result, details"`

		Programs bool `toml:"programs" help:"record every program that commands execute, with its arguments: logs shows them to the client, and the audit file has them"`
	} `toml:"audit"`

	Secrets struct {
		Give map[string]string `toml:"give" arg:"TABLE" example:"{ API_KEY = \"env:API_KEY\" }" help:"secrets that every command gets as environment variables, each with the source of its value: env:NAME or file:PATH; replies show the values masked"`
		Env  []string          `toml:"env" arg:"NAMES" help:"environment variables of warmbox whose values are masked in replies; well-known forms of keys are always masked"`
	} `toml:"secrets"`

	HTTP struct {
		Listen         string   `toml:"listen" flag:"listen" default:"127.0.0.1:8811" arg:"ADDR" for:"http" help:"address and port; an address other than loopback needs TLS, or --insecure"`
		TokenFile      string   `toml:"token_file" flag:"token-file" arg:"FILE" for:"http" help:"file with the token that clients must send, or with several tokens, each on a line name = token; if not set, warmbox generates a token in the user's state directory"`
		TLSCert        string   `toml:"tls_cert" flag:"tls-cert" arg:"FILE" for:"http" help:"certificate, in PEM form; the server then uses HTTPS"`
		TLSKey         string   `toml:"tls_key" flag:"tls-key" arg:"FILE" for:"http" help:"private key of the certificate, in PEM form"`
		Insecure       bool     `toml:"insecure" flag:"insecure" default:"false" for:"http" help:"listen without TLS although other machines can read the traffic, including tokens"`
		MaxConnections int      `toml:"max_connections" flag:"max-connections" default:"1024" for:"http" help:"how many client connections may be open"`
		MaxRate        int      `toml:"max_rate" flag:"max-rate" default:"200" for:"http" help:"how many requests per second one token may make"`
		SSE            bool     `toml:"sse" flag:"sse" default:"false" for:"http" help:"also serve the older SSE transport, at /sse"`
		AllowHosts     []string `toml:"allow_hosts" flag:"allow-hosts" for:"http" help:"host names by which clients may call the server, besides those of loopback and the address that it listens on"`
		AllowOrigins   []string `toml:"allow_origins" flag:"allow-origins" for:"http" help:"web origins that may call the server, such as https://app.example.com"`
	} `toml:"http"`
}

// BoxSettings are those without a section, about all boxes.
type BoxSettings struct {
	Backend        string   `toml:"backend" default:"docker" arg:"NAME" help:"where boxes run: docker, or process, which isolates nothing"`
	Network        string   `toml:"network" default:"none" arg:"MODE" help:"network of the boxes: none, or bridge"`
	Workspace      string   `toml:"workspace" arg:"DIR" help:"directory of this machine that boxes see as /workspace; if not set, each box gets its own"`
	WorkspaceMode  string   `toml:"workspace_mode" default:"rw" arg:"MODE" help:"access of boxes to the workspace: ro (read-only) or rw"`
	WorkspaceRoots []string `toml:"workspace_roots" arg:"DIRS" help:"the workspace must lie in one of these directories; if not set, in any except those of the system, a home directory itself, and warmbox's own"`
	Protect        []string `toml:"protect" default:".git/hooks,.git/config,.git/config.worktree,.git/commondir,.husky,.vscode,.idea,.cursor,.claude,.mcp.json,.envrc,.bashrc,.bash_profile,.profile,.zshrc,.zshenv" arg:"PATHS" help:"paths of the workspace that commands cannot change, because this machine may run them later; unless the list is empty, also the files that tell git which programs to run; !PATH is not protected"`
	MinFree        size     `toml:"min_free" default:"1g" help:"disk space that commands must leave free, at most a twentieth of the disk; if less is free, commands are killed; 0: no limit"`
	User           string   `toml:"user" arg:"UID:GID" help:"user that commands run as; if not set, the owner of the workspace, or 1000:1000 if the owner is root"`
	Seccomp        string   `toml:"seccomp" arg:"FILE" help:"file with a seccomp profile, which says what system calls boxes may make, or engine for the engine's own profile; if not set, warmbox's own profile"`
	Runtime        string   `toml:"runtime" arg:"NAME" help:"the engine's runtime for boxes, such as runsc; if not set, the engine's default"`
	UserNS         string   `toml:"userns" default:"engine" arg:"MODE" help:"user ids of boxes: engine (mapped as the engine is configured) or auto (Podman gives each box ids of its own)"`
	TmpSize        size     `toml:"tmp_size" default:"512m" help:"size of /tmp in a box; its files use the memory of the box"`
	MaxBoxes       int      `toml:"max_boxes" default:"16" help:"maximum number of boxes that run at the same time, for all clients together"`
	IdleTimeout    duration `toml:"idle_timeout" default:"30m" help:"a box is stopped after this time without a call and without a running process; 0: never"`
	KeepFor        duration `toml:"keep_for" default:"24h" help:"how long a persistent box may be detached (without a server) or idle before it is stopped"`
	OnFull         string   `toml:"on_full" default:"refuse" arg:"MODE" help:"what happens when a call needs a new box while max_boxes boxes run, and no box of a silent client can be stopped (grace): refuse (return an error), or evict the box that has been idle for longest"`
	Grace          duration `toml:"grace" default:"2m" help:"while max_boxes boxes run, the idle boxes of a client make room for others when no call of it came for this time; those of its own other sessions do at once"`
}

// A setting is one field of settings.
type setting struct {
	key  string // "exec.timeout"
	flag string // "exec-timeout"
	env  string // "WARMBOX_EXEC_TIMEOUT"
	def  string // its default as text, "" if it has none
	arg  string // "DURATION", "" for a switch
	only string // the one command that accepts it, "" if all do
	help string

	example string // of a table

	to any // pointer to its field
}

// table lists the settings in the order of the file.
func (s *settings) table() []setting {
	return rows(nil, "", reflect.ValueOf(s).Elem())
}

func rows(list []setting, section string, v reflect.Value) []setting {
	for field, value := range v.Fields() {
		key := section + field.Tag.Get("toml")
		if field.Anonymous {
			list = rows(list, section, value)
			continue
		}
		if field.Type.Kind() == reflect.Struct {
			list = rows(list, key+".", value)
			continue
		}
		list = append(list, row(key, field.Tag, value.Addr().Interface()))
	}
	return list
}

func row(key string, tag reflect.StructTag, to any) setting {
	s := setting{
		key: key, flag: tag.Get("flag"), def: tag.Get("default"), arg: tag.Get("arg"),
		only: tag.Get("for"), help: tag.Get("help"), example: tag.Get("example"), to: to,
	}
	if s.flag == "" {
		s.flag = keyFlag(key)
	}
	if s.arg == "" {
		s.arg = placeholder(to)
	}
	s.env = envPrefix + variable(s.flag)
	return s
}

// isTable reports whether a setting can be set only in the configuration file.
func (s setting) isTable() bool {
	switch s.to.(type) {
	case *map[string]string, *map[string][]string, *[]mountSetting:
		return true
	}
	return false
}

// keyFlag derives a flag from a key.
func keyFlag(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// variable derives an environment variable from a flag, without envPrefix.
func variable(flag string) string { return strings.ReplaceAll(strings.ToUpper(flag), "-", "_") }

const envPrefix = "WARMBOX_"
