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
//	help     what it does
//
// The environment variable is derived from the flag: --exec-timeout, WARMBOX_EXEC_TIMEOUT.
type settings struct {
	BoxSettings

	AuditFile string `toml:"audit_file" arg:"FILE" help:"audit file, with a line of JSON for each box and command; if empty, none"`

	Env map[string]string `toml:"env" arg:"TABLE" help:"variables for every command; only in the configuration file"`

	Mounts []mountSetting `toml:"mounts" arg:"TABLES" help:"more files and directories of this machine that boxes see: source, target, and mode, ro or rw; only in the configuration file"`

	Docker struct {
		Host string `toml:"host" arg:"URL" help:"the engine, such as unix:///var/run/docker.sock; if empty, the usual places are tried"`
		Path string `toml:"path" default:"auto" arg:"PATH" help:"how the server reaches boxes: socket, relay, or auto, the one that works"`
	} `toml:"docker"`

	Images struct {
		Default string   `toml:"default" flag:"image" default:"warmbox/sandbox:slim" arg:"IMAGE" help:"image of a box if a call names none"`
		Allow   []string `toml:"allow" help:"other images that calls may name, as patterns: golang:*,ghcr.io/acme/*"`
	} `toml:"images"`

	Pool struct {
		Warm        int      `toml:"warm" default:"1" help:"how many idle boxes the pool holds, from the first client on; 0: none"`
		Images      []string `toml:"images" help:"images of which the pool holds as many, besides the default image"`
		Max         int      `toml:"max" default:"8" help:"how many boxes the pool holds at most, after a burst of starts"`
		IdleTimeout duration `toml:"idle_timeout" default:"30m" help:"how long a box stays in the pool if no call needs one; 0: without limit"`
		MaxLifetime duration `toml:"max_lifetime" default:"1h" help:"when a box in the pool is replaced by a new one, from what its image is then; 0: never"`
		MaxUses     int      `toml:"max_uses" default:"0" help:"how many commands a client's default box runs before it is replaced; 0: no limit"`
	} `toml:"pool"`

	Exec struct {
		Timeout      duration `toml:"timeout" default:"10m" help:"time limit of a command, unless its call sets another"`
		Wait         duration `toml:"wait" default:"45s" help:"how long a call waits for a command before it replies that the command still runs"`
		OnDisconnect string   `toml:"on_disconnect" default:"kill" arg:"MODE" help:"what happens to a command whose client disconnects: kill, or run-on"`
		MaxRuns      int      `toml:"max_runs" default:"256" help:"how many commands run at the same time, for all clients"`
		Memory       size     `toml:"memory" default:"2g" help:"memory of a box; swap adds nothing to it"`
		CPU          float64  `toml:"cpu" default:"2" help:"cores of a box, at most what the engine has"`
		Pids         int64    `toml:"pids" default:"512" help:"processes and threads of a box"`
		SpareShells  int      `toml:"spare_shells" default:"1" help:"how many spare shells a box has; a few more after a burst; 0: none"`
	} `toml:"exec"`

	Commands struct {
		Allow    []string            `toml:"allow" flag:"exec-whitelist" help:"the only commands that may run, by their first words: go test,ls; default stands for a list of usual commands; if empty, all may"`
		Deny     []string            `toml:"deny" help:"commands that may not run although the list above allows them"`
		OnDeny   string              `toml:"on_deny" default:"deny" arg:"MODE" help:"what happens to a command that is not on the list: deny, or ask the user for approval, if the client supports that"`
		Release  []string            `toml:"release" arg:"NAMES" help:"variables that commands may set although they can choose what code runs, such as GOFLAGS"`
		Examples map[string][]string `toml:"examples" arg:"TABLE" help:"by entry of the two lists, commands that must be allowed or denied; only in the configuration file"`
	} `toml:"commands"`

	Output struct {
		Whole   size `toml:"whole" default:"8000" help:"up to this size a reply shows all output of a command; of more it shows a summary and an excerpt"`
		Excerpt size `toml:"excerpt" default:"4000" help:"size of that excerpt"`
		Max     size `toml:"max" default:"100000" help:"how much output a call may request, with maxBytes"`
	} `toml:"output"`

	Summary struct {
		Provider   string   `toml:"provider" default:"builtin" arg:"NAME" help:"what summarises long output: builtin, anthropic, openai or a server with its API, command, client or none"`
		Model      string   `toml:"model" arg:"NAME" help:"name of the model for anthropic or openai"`
		BaseURL    string   `toml:"base_url" arg:"URL" help:"URL of its API, such as http://localhost:11434/v1; if empty, the provider's own"`
		APIKeyEnv  string   `toml:"api_key_env" arg:"NAME" help:"environment variable with the API key"`
		APIKeyFile string   `toml:"api_key_file" arg:"FILE" help:"file with the API key, which only its owner can read"`
		Command    []string `toml:"command" help:"program that summarises, with its arguments: it reads the prompt and prints the summary"`
		Timeout    duration `toml:"timeout" default:"5s" help:"timeout of a summary; after it the built-in one is used"`
		MaxInput   size     `toml:"max_input" default:"16k" help:"how much of an output is sent for a summary"`
		PerMinute  int      `toml:"per_minute" default:"20" help:"how many summaries are requested in a minute"`
	} `toml:"summary"`

	Log struct {
		Level    string   `toml:"level" default:"info" arg:"LEVEL" help:"lowest level that is logged: debug, info, warn or error"`
		Format   string   `toml:"format" default:"text" arg:"FORMAT" help:"format of the log: text, or json"`
		File     string   `toml:"file" arg:"FILE" help:"file for the program's log; if empty, standard error"`
		Dir      string   `toml:"dir" arg:"DIR" help:"directory for the raw output of commands; if empty, warmbox/logs in the user's state directory"`
		MaxRun   size     `toml:"max_run" default:"64m" help:"how much raw output of one command is stored; the rest is counted"`
		MaxTotal size     `toml:"max_total" default:"1g" help:"how much raw output is stored for all commands; beyond it the oldest is deleted"`
		MaxAge   duration `toml:"max_age" default:"168h" help:"how long raw output is stored"`
	} `toml:"log"`

	Secrets struct {
		Give map[string]string `toml:"give" arg:"TABLE" help:"variables that every command sees and no reply shows, with the source of each value: env:NAME or file:PATH; only in the configuration file"`
		Env  []string          `toml:"env" arg:"NAMES" help:"environment variables of warmbox whose values no reply shows; keys of well-known forms are never shown"`
	} `toml:"secrets"`

	HTTP struct {
		Listen         string   `toml:"listen" flag:"listen" default:"127.0.0.1:8811" arg:"ADDR" for:"http" help:"address and port; an address other than loopback needs TLS, or --insecure"`
		TokenFile      string   `toml:"token_file" flag:"token-file" arg:"FILE" for:"http" help:"file with the token that clients must send, or with a line name = token for each of several; if empty, one is generated in the user's state directory"`
		TLSCert        string   `toml:"tls_cert" flag:"tls-cert" arg:"FILE" for:"http" help:"certificate, in PEM form; the server then uses HTTPS"`
		TLSKey         string   `toml:"tls_key" flag:"tls-key" arg:"FILE" for:"http" help:"its private key"`
		Insecure       bool     `toml:"insecure" flag:"insecure" default:"false" for:"http" help:"listen without TLS although other machines can read the traffic, including tokens"`
		MaxConnections int      `toml:"max_connections" flag:"max-connections" default:"1024" for:"http" help:"how many client connections may be open"`
		MaxRate        int      `toml:"max_rate" flag:"max-rate" default:"200" for:"http" help:"how many requests per second one token may make"`
		SSE            bool     `toml:"sse" flag:"sse" default:"false" for:"http" help:"also serve the older SSE transport, at /sse"`
		AllowHosts     []string `toml:"allow_hosts" flag:"allow-hosts" for:"http" help:"host names by which clients may call the server, besides loopback's and the address it listens on"`
		AllowOrigins   []string `toml:"allow_origins" flag:"allow-origins" for:"http" help:"web origins that may call it, such as https://app.example.com"`
	} `toml:"http"`
}

// BoxSettings are those without a section, about all boxes.
type BoxSettings struct {
	Backend        string   `toml:"backend" default:"docker" arg:"NAME" help:"where boxes run: docker, or process, which isolates nothing"`
	Network        string   `toml:"network" default:"none" arg:"MODE" help:"network of the boxes: none, or bridge"`
	Workspace      string   `toml:"workspace" arg:"DIR" help:"host directory that boxes see as /workspace; if empty, each box gets its own"`
	WorkspaceMode  string   `toml:"workspace_mode" default:"rw" arg:"MODE" help:"access of boxes to it: ro, read-only, or rw"`
	WorkspaceRoots []string `toml:"workspace_roots" arg:"DIRS" help:"directories that the workspace must lie in; if empty, any except those of the system, a home directory, and warmbox's own"`
	Protect        []string `toml:"protect" default:".git/hooks,.git/config,.git/config.worktree,.git/commondir,.husky,.vscode,.idea,.cursor,.claude,.mcp.json,.envrc,.bashrc,.bash_profile,.profile,.zshrc,.zshenv" arg:"PATHS" help:"paths of the workspace that commands cannot change, because this machine may run them later, besides what git executes; !PATH excludes one"`
	MinFree        size     `toml:"min_free" default:"1g" help:"disk space that commands must leave free, at most a twentieth of the disk; below that they are killed; 0: no limit"`
	User           string   `toml:"user" arg:"UID:GID" help:"user that commands run as; if empty, the owner of the workspace, or 1000:1000 if that is root"`
	Seccomp        string   `toml:"seccomp" arg:"FILE" help:"system calls that boxes may make: a seccomp profile, or engine for the engine's own; if empty, a profile made for boxes"`
	Runtime        string   `toml:"runtime" arg:"NAME" help:"the engine's runtime for boxes, such as runsc; if empty, the engine's default"`
	UserNS         string   `toml:"userns" default:"engine" arg:"MODE" help:"user ids of boxes: engine, as the engine maps them, or auto: Podman gives each box ids of its own"`
	TmpSize        size     `toml:"tmp_size" default:"512m" help:"size of /tmp in a box; it counts as memory"`
	MaxBoxes       int      `toml:"max_boxes" default:"16" help:"how many boxes run at the same time, for all clients"`
	IdleTimeout    duration `toml:"idle_timeout" default:"30m" help:"a box is stopped after this time without a call and a running process; 0: never"`
	KeepFor        duration `toml:"keep_for" default:"24h" help:"how long a persistent box stays detached, or idle"`
	OnFull         string   `toml:"on_full" default:"refuse" arg:"MODE" help:"if a box beyond max_boxes is needed: refuse, or evict the box that was idle for longest"`
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
	to   any // pointer to its field
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
		only: tag.Get("for"), help: tag.Get("help"), to: to,
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

// keyFlag derives a flag from a key.
func keyFlag(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// variable derives an environment variable from a flag, without envPrefix.
func variable(flag string) string { return strings.ReplaceAll(strings.ToUpper(flag), "-", "_") }

const envPrefix = "WARMBOX_"
