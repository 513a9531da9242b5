package cli

import (
	"reflect"
	"strings"
)

// settings is the configuration, shaped like its file, and the one table of all
// that can be set. The flag, the environment variable, the help and the check of
// the example file are made of it. A field's tags are what is known of a setting:
//
//	toml     its key in the file
//	flag     its flag, where that is not made of its keys
//	default  what holds when nobody says anything, written as behind the flag
//	arg      what stands for the value in the help, where its type does not say
//	for      the only command that takes it
//	help     what it does
//
// The environment variable is made of the flag: --exec-timeout, WARMBOX_EXEC_TIMEOUT.
type settings struct {
	Backend        string   `toml:"backend" default:"docker" arg:"NAME" help:"where boxes run: docker, or process, which isolates nothing"`
	Network        string   `toml:"network" default:"none" arg:"MODE" help:"network of the boxes: none, or bridge"`
	Workspace      string   `toml:"workspace" arg:"DIR" help:"host directory that boxes see as /workspace; if empty, each box gets its own"`
	WorkspaceMode  string   `toml:"workspace_mode" default:"rw" arg:"MODE" help:"what boxes may do with it: ro, only read, or rw"`
	WorkspaceRoots []string `toml:"workspace_roots" arg:"DIRS" help:"directories that the workspace must lie in; if empty, any that is not the system's, a home or ours"`
	Protect        []string `toml:"protect" default:".git/hooks,.git/config,.git/config.worktree,.git/commondir,.husky,.vscode,.idea,.cursor,.claude,.mcp.json,.envrc,.bashrc,.bash_profile,.profile,.zshrc,.zshenv" arg:"PATHS" help:"what of the workspace commands cannot change, because this machine may run it later, besides what git executes; !PATH leaves one out"`
	MinFree        size     `toml:"min_free" default:"1g" help:"how much of its disk commands leave free, at most a twentieth of it: below that they are killed; 0: they may fill it"`
	User           string   `toml:"user" arg:"UID:GID" help:"whom commands run as; if empty, the owner of the workspace, or 1000:1000 where that is root"`
	Seccomp        string   `toml:"seccomp" arg:"FILE" help:"which system calls boxes may make: a seccomp profile, or engine, the engine's own; if empty, one made for boxes"`
	Runtime        string   `toml:"runtime" arg:"NAME" help:"the engine's runtime for boxes, such as runsc; if empty, the engine's default"`
	UserNS         string   `toml:"userns" default:"engine" arg:"MODE" help:"user ids of boxes: engine, as the engine maps them; or auto, which has Podman give each box ids of its own"`
	TmpSize        size     `toml:"tmp_size" default:"512m" help:"how much /tmp of a box holds; it counts as memory"`
	MaxBoxes       int      `toml:"max_boxes" default:"16" help:"how many boxes stand at once, of all clients"`
	IdleTimeout    duration `toml:"idle_timeout" default:"30m" help:"how long a box stands in which nothing runs and that nobody uses; 0: for ever"`
	KeepFor        duration `toml:"keep_for" default:"24h" help:"how long a box that is kept waits for a server, or stands unused"`
	OnFull         string   `toml:"on_full" default:"refuse" arg:"MODE" help:"what comes of one box too many: refuse, or evict, the one that was idle for longest makes room"`

	AuditFile string `toml:"audit_file" arg:"FILE" help:"where each box and command is written down, a line of JSON each; if empty, nowhere"`

	Env map[string]string `toml:"env" arg:"TABLE" help:"variables that every command sees; in the file only"`

	Mounts []mountSetting `toml:"mounts" arg:"TABLES" help:"more of this machine that boxes see: source, target, and mode, ro or rw; in the file only"`

	Docker struct {
		Host string `toml:"host" arg:"URL" help:"the engine, such as unix:///var/run/docker.sock; if empty, it is looked for"`
		Path string `toml:"path" default:"auto" arg:"PATH" help:"how boxes are reached: socket, relay, or auto, what works"`
	} `toml:"docker"`

	Images struct {
		Default string   `toml:"default" flag:"image" default:"warmbox/sandbox:slim" arg:"IMAGE" help:"image of a box when a call names none"`
		Allow   []string `toml:"allow" help:"what other images calls may name, as patterns: golang:*,ghcr.io/acme/*"`
	} `toml:"images"`

	Pool struct {
		Warm        int      `toml:"warm" default:"1" help:"how many boxes stand ready before anybody asks, from the first client on; 0: none"`
		Images      []string `toml:"images" help:"images of which so many stand ready too, besides the default one"`
		Max         int      `toml:"max" default:"8" help:"how many stand ready at most, after many were wanted at once"`
		IdleTimeout duration `toml:"idle_timeout" default:"30m" help:"how long they stand while nobody wants one; 0: for ever"`
		MaxLifetime duration `toml:"max_lifetime" default:"1h" help:"after which one is replaced by a new one, of what its image is by then; 0: never"`
		MaxUses     int      `toml:"max_uses" default:"0" help:"how many commands a client's own box runs before a new one takes its place; 0: any number"`
	} `toml:"pool"`

	Exec struct {
		Timeout      duration `toml:"timeout" default:"10m" help:"a command that runs for longer is killed, unless its call says otherwise"`
		Wait         duration `toml:"wait" default:"45s" help:"how long a call waits for a command before it answers that it still runs"`
		OnDisconnect string   `toml:"on_disconnect" default:"kill" arg:"MODE" help:"what becomes of a command whose client disconnects: kill, or run-on"`
		MaxRuns      int      `toml:"max_runs" default:"256" help:"how many commands run at once, of all clients"`
		Memory       size     `toml:"memory" default:"2g" help:"memory of a box; swap adds nothing to it"`
		CPU          float64  `toml:"cpu" default:"2" help:"cores of a box, at most what the engine has"`
		Pids         int64    `toml:"pids" default:"512" help:"processes and threads of a box"`
		SpareShells  int      `toml:"spare_shells" default:"1" help:"how many shells of a box are started before a command comes; a few more after a burst; 0: none"`
	} `toml:"exec"`

	Commands struct {
		Allow    []string            `toml:"allow" flag:"exec-whitelist" help:"the only commands that may run, by their first words: go test,ls; default stands for a list of usual ones; if empty, all may"`
		Deny     []string            `toml:"deny" help:"commands that may not run, though others that begin alike may"`
		OnDeny   string              `toml:"on_deny" default:"deny" arg:"MODE" help:"what becomes of a command that the list does not have: deny, or ask, the user, where the client can"`
		Release  []string            `toml:"release" arg:"NAMES" help:"variables that commands may set although they choose what code runs, such as GOFLAGS"`
		Examples map[string][]string `toml:"examples" arg:"TABLE" help:"by entry of the two lists, commands that must be allowed or denied; in the file only"`
	} `toml:"commands"`

	Output struct {
		Whole   size `toml:"whole" default:"8000" help:"output of a command that an answer shows as it is; of a larger one it shows a summary and an excerpt"`
		Excerpt size `toml:"excerpt" default:"4000" help:"how long that excerpt is"`
		Max     size `toml:"max" default:"100000" help:"how much output a call may ask to be shown, by maxBytes"`
	} `toml:"output"`

	Summary struct {
		Provider   string   `toml:"provider" default:"builtin" arg:"NAME" help:"who summarises long output: builtin, anthropic, openai or what speaks as it, command, client or none"`
		Model      string   `toml:"model" arg:"NAME" help:"the model that anthropic or openai is asked for"`
		BaseURL    string   `toml:"base_url" arg:"URL" help:"where its API is, such as http://localhost:11434/v1; if empty, the provider's own"`
		APIKeyEnv  string   `toml:"api_key_env" arg:"NAME" help:"environment variable with the key of the API"`
		APIKeyFile string   `toml:"api_key_file" arg:"FILE" help:"file with that key, which only its owner can read"`
		Command    []string `toml:"command" help:"program that summarises, with its arguments: the prompt is its input, the summary its output"`
		Timeout    duration `toml:"timeout" default:"5s" help:"how long a summary is waited for before the built-in one takes its place"`
		MaxInput   size     `toml:"max_input" default:"16k" help:"how much of an output is given away for a summary"`
		PerMinute  int      `toml:"per_minute" default:"20" help:"how many summaries are asked for in a minute"`
	} `toml:"summary"`

	Log struct {
		Level    string   `toml:"level" default:"info" arg:"LEVEL" help:"what is logged: debug, info, warn or error and all above"`
		Format   string   `toml:"format" default:"text" arg:"FORMAT" help:"text, or json"`
		File     string   `toml:"file" arg:"FILE" help:"where the log of the program goes; if empty, to standard error"`
		Dir      string   `toml:"dir" arg:"DIR" help:"where the raw output of commands is kept; if empty, warmbox/logs in the user's state directory"`
		MaxRun   size     `toml:"max_run" default:"64m" help:"how much raw output of one command is kept; the rest is counted"`
		MaxTotal size     `toml:"max_total" default:"1g" help:"how much raw output is kept in all; beyond it the oldest is deleted"`
		MaxAge   duration `toml:"max_age" default:"168h" help:"how long raw output is kept"`
	} `toml:"log"`

	Secrets struct {
		Give map[string]string `toml:"give" arg:"TABLE" help:"variables that every command sees and no answer shows, by where their values are: env:NAME or file:PATH; in the file only"`
		Env  []string          `toml:"env" arg:"NAMES" help:"environment variables of warmbox whose values no reply shows; keys of well-known forms it never shows"`
	} `toml:"secrets"`

	HTTP struct {
		Listen         string   `toml:"listen" flag:"listen" default:"127.0.0.1:8811" arg:"ADDR" for:"http" help:"address and port; one that is not loopback needs TLS, or --insecure"`
		TokenFile      string   `toml:"token_file" flag:"token-file" arg:"FILE" for:"http" help:"file with the token that clients must send, or with a line name = token for each; if empty, one is made and kept in the user's state directory"`
		TLSCert        string   `toml:"tls_cert" flag:"tls-cert" arg:"FILE" for:"http" help:"certificate, in PEM form; with it, HTTPS is served"`
		TLSKey         string   `toml:"tls_key" flag:"tls-key" arg:"FILE" for:"http" help:"its private key"`
		Insecure       bool     `toml:"insecure" flag:"insecure" default:"false" for:"http" help:"listen without TLS where other machines see what passes, tokens too"`
		MaxConnections int      `toml:"max_connections" flag:"max-connections" default:"1024" for:"http" help:"how many connections of clients stand at once"`
		MaxRate        int      `toml:"max_rate" flag:"max-rate" default:"200" for:"http" help:"how many requests a second one token is good for"`
		SSE            bool     `toml:"sse" flag:"sse" default:"false" for:"http" help:"serve the older SSE transport too, at /sse"`
		AllowHosts     []string `toml:"allow_hosts" flag:"allow-hosts" for:"http" help:"names that clients may call the server by, besides loopback's and the address it listens on"`
		AllowOrigins   []string `toml:"allow_origins" flag:"allow-origins" for:"http" help:"web pages that may call it, such as https://app.example.com"`
	} `toml:"http"`
}

// A setting is one row of the table.
type setting struct {
	key  string // "exec.timeout"
	flag string // "exec-timeout"
	env  string // "WARMBOX_EXEC_TIMEOUT"
	def  string // its default as text, "" where it has none
	arg  string // "DURATION", "" of a switch
	only string // the one command that takes it, "" where all do
	help string
	to   any // points at its field
}

// table lists the settings in the order of the file.
func (s *settings) table() []setting {
	return rows(nil, "", reflect.ValueOf(s).Elem())
}

func rows(list []setting, section string, v reflect.Value) []setting {
	for field, value := range v.Fields() {
		key := section + field.Tag.Get("toml")
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

// keyFlag returns the flag that is made of a key.
func keyFlag(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// variable returns a flag's environment variable, without what all of ours begin
// with.
func variable(flag string) string { return strings.ReplaceAll(strings.ToUpper(flag), "-", "_") }

const envPrefix = "WARMBOX_"
