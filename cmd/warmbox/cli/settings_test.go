package cli

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox"
	"github.com/warmbox/warmbox/privatefile"
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
)

// clean keeps the settings of whoever runs the tests out of them.
func clean(t *testing.T) {
	for _, s := range new(settings).table() {
		t.Setenv(s.env, "")
	}
	t.Setenv("WARMBOX_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
}

func mustLoad(t *testing.T, flags map[string]string) *Config {
	t.Helper()
	c, err := load(flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExampleShowsEveryDefault(t *testing.T) {
	clean(t)
	// A default is a line that begins with "#" and a key; prose has a space.
	active := regexp.MustCompile(`(?m)^#(\w+ = )`).ReplaceAllString(warmbox.ExampleConfig, "$1")
	var shown settings
	md, err := toml.Decode(active, &shown)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		t.Errorf("the example has settings that do not exist: %v", unknown)
	}
	for _, s := range shown.table() {
		if !md.IsDefined(strings.Split(s.key, ".")...) {
			t.Errorf("the example lacks %s", s.key)
		}
		if v := reflect.ValueOf(s.to).Elem(); (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0 {
			v.SetZero() // an empty one is none
		}
	}
	if diff := cmp.Diff(mustLoad(t, nil).settings, shown); diff != "" {
		t.Errorf("the example does not show the defaults (- default, + example):\n%s", diff)
	}
}

func TestExampleAsItIsChangesNothing(t *testing.T) {
	clean(t)
	c := mustLoad(t, map[string]string{"config": writeConfig(t, warmbox.ExampleConfig)})
	if diff := cmp.Diff(mustLoad(t, nil).settings, c.settings); diff != "" || len(c.origin) != 0 {
		t.Errorf("origins %v, settings differ:\n%s", c.origin, diff)
	}
}

func TestFlagBeforeEnvironmentBeforeFile(t *testing.T) {
	clean(t)
	file := writeConfig(t, "[exec]\ntimeout = \"1s\"\nmemory = \"1g\"\ncpu = 1\n")
	t.Setenv("WARMBOX_CONFIG", file)
	t.Setenv("WARMBOX_EXEC_TIMEOUT", "2s")
	t.Setenv("WARMBOX_EXEC_MEMORY", "2000m")
	c := mustLoad(t, map[string]string{"exec-timeout": "3s"})
	if c.Exec.Timeout != duration(3*time.Second) || c.Exec.Memory != 2000<<20 || c.Exec.CPU != 1 || c.Exec.Pids != 512 {
		t.Errorf("got %+v", c.Exec)
	}
	want := map[string]string{
		"exec.timeout": "--exec-timeout",
		"exec.memory":  "the environment variable WARMBOX_EXEC_MEMORY",
		"exec.cpu":     "exec.cpu in " + file,
	}
	if diff := cmp.Diff(want, c.origin); diff != "" {
		t.Error(diff)
	}
}

// Two settings under one name would shadow each other.
func TestNamesAreUnique(t *testing.T) {
	names := map[string]int{"config": 1, "json": 1}
	for _, s := range new(settings).table() {
		names[s.flag]++
		if s.help == "" || strings.HasSuffix(s.help, ".") {
			t.Errorf("help of %s: %q", s.key, s.help)
		}
		if _, _, ok := Warmbox().find([]string{s.only}); !ok && s.only != "" {
			t.Errorf("%s is for %q, which is no command", s.key, s.only)
		}
	}
	for name, n := range names {
		if n != 1 {
			t.Errorf("%d settings are called --%s", n, name)
		}
	}
}

// The packages below have defaults of their own, for those who use them as a
// library. Nobody should be surprised by which one holds.
func TestDefaultsAgreeWithThePackages(t *testing.T) {
	clean(t)
	c := mustLoad(t, nil)
	if c.Images.Default != docker.DefaultImage || c.MaxBoxes != sandbox.DefaultMaxBoxes || c.Exec.MaxRuns != sandbox.DefaultMaxRuns {
		t.Errorf("image %q, boxes %d, runs %d", c.Images.Default, c.MaxBoxes, c.Exec.MaxRuns)
	}
}

func TestRefusals(t *testing.T) {
	file, openFile := writeConfig(t, ""), writeConfig(t, "sk-1234")
	if err := os.Chmod(openFile, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags map[string]string
		want  []string // each must be in the sentence
	}{
		"no unit":                {map[string]string{"exec-timeout": "60"}, []string{"--exec-timeout", `"60"`, "45s"}},
		"no size":                {map[string]string{"exec-memory": "much"}, []string{"--exec-memory", `"much"`, "2g"}},
		"negative size":          {map[string]string{"exec-memory": "-1g"}, []string{"--exec-memory", `"-1g"`}},
		"endless size":           {map[string]string{"exec-memory": "inf"}, []string{"--exec-memory"}},
		"huge size":              {map[string]string{"exec-memory": "99999999t"}, []string{"--exec-memory"}},
		"no number":              {map[string]string{"exec-cpu": "NaN"}, []string{"--exec-cpu"}},
		"too little":             {map[string]string{"exec-memory": "1k"}, []string{"--exec-memory: 1k is not between 16m and"}},
		"no backend":             {map[string]string{"backend": "dcoker"}, []string{"did you mean docker?"}},
		"no mode":                {map[string]string{"workspace-mode": "rwx"}, []string{"--workspace-mode", "ro, rw"}},
		"no directory":           {map[string]string{"workspace": file}, []string{file + " is not a directory"}},
		"nothing there":          {map[string]string{"workspace": "/no/such/place"}, []string{"--workspace: /no/such/place does not exist, and must be a directory; create it or correct the path"}},
		"no profile":             {map[string]string{"seccomp": filepath.Dir(file)}, []string{"--seccomp", "is not a file"}},
		"profile not there":      {map[string]string{"seccomp": "/no/such"}, []string{"--seccomp: /no/such does not exist, and must be a file"}},
		"below a file":           {map[string]string{"workspace": file + "/x"}, []string{"--workspace: ", "must be a directory", "correct the path"}},
		"above another":          {map[string]string{"output-max": "1000"}, []string{"the default of output.whole: 8000 is not between 1 and 1000; the maximum is that of output.max"}},
		"no room for defaults":   {map[string]string{"pool-max": "0"}, []string{"the default of pool.warm: 1 is not between 0 and 0; the maximum is that of pool.max"}},
		"no level":               {map[string]string{"log-level": "inof"}, []string{"did you mean info?"}},
		"user by name":           {map[string]string{"user": "agent"}, []string{"--user", "1000:1000"}},
		"user and more":          {map[string]string{"user": "1:2:3"}, []string{"--user"}},
		"bad pattern":            {map[string]string{"images-allow": "golang:["}, []string{"--images-allow", `"golang:["`}},
		"no image":               {map[string]string{"image": ""}, []string{"--image", "empty"}},
		"no command's beginning": {map[string]string{"exec-whitelist": "ls;rm"}, []string{"--exec-whitelist", `"ls;rm"`}},
		"examples":               {map[string]string{"commands-examples": "ls"}, []string{"--commands-examples", "configuration file"}},
		"nothing confines":       {map[string]string{"backend": "process"}, []string{"--backend", "--exec-whitelist"}},
		"no provider":            {map[string]string{"summary-provider": "opnai"}, []string{"--summary-provider", "did you mean openai?"}},
		"no model":               {map[string]string{"summary-provider": "openai"}, []string{"--summary-provider", "summary.model"}},
		"no key":                 {map[string]string{"summary-provider": "anthropic", "summary-model": "m"}, []string{"--summary-provider", "summary.api_key_env"}},
		"empty key":              {map[string]string{"summary-api-key-env": "NO_SUCH_KEY"}, []string{"--summary-api-key-env", "NO_SUCH_KEY", "the key is empty"}},
		"open key file":          {map[string]string{"summary-api-key-file": openFile}, []string{"--summary-api-key-file", "chmod 600 " + openFile}},
		"two keys":               {map[string]string{"summary-api-key-file": file, "summary-api-key-env": "HOME"}, []string{"--summary-api-key-file", "api_key_env is also set"}},
		"no command":             {map[string]string{"summary-provider": "command"}, []string{"--summary-provider", "summary.command"}},
		"no program":             {map[string]string{"summary-command": "no-such-program,-x"}, []string{"--summary-command", "no-such-program"}},
		"no URL":                 {map[string]string{"summary-base-url": "localhost:11434"}, []string{"--summary-base-url", "http://localhost:11434/v1"}},
		"key in the URL":         {map[string]string{"summary-base-url": "https://me:sk-1@h/v1"}, []string{"--summary-base-url", "must not have a user"}},
		"too patient":            {map[string]string{"summary-timeout": "2m"}, []string{"--summary-timeout", "1m0s"}},
		"too much":               {map[string]string{"summary-max-input": "17k"}, []string{"--summary-max-input", "16k"}},
		"too often":              {map[string]string{"summary-per-minute": "0"}, []string{"--summary-per-minute"}},
		"neither":                {map[string]string{"sse": "perhaps"}, []string{"--sse", "not true or false"}},
		"missing config":         {map[string]string{"config": "/no/config.toml"}, []string{"the configuration file /no/config.toml does not exist; correct the path"}},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			_, err := load(tt.flags)
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestFileRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"[exec]\n\ntiemout = \"3s\"\n":                         "line 3: unknown setting exec.tiemout; did you mean exec.timeout?",
		"[exce]\ntimeout = \"3s\"\n":                           "line 1: unknown setting exce; did you mean exec?",
		"[exec]\nMemory = \"1k\"\n":                            "line 2: unknown setting exec.Memory; did you mean exec.memory?",
		"audit_file = \"a\"\n":                                 "line 1: audit_file is now file in the section [audit]",
		"exec.foo.bar = 1\n":                                   "line 1: unknown setting exec.foo",
		"[exec]\nenv = {a = 1}\n":                              "line 2: unknown setting exec.env",
		"[exec]\nmemory = 2g\n":                                `line 2: the value of memory is not valid without quotes; text, sizes and durations are quoted, such as "bridge", "2g" and "10m"`,
		"[exec]\ntimeout = 10m # ten\n":                        "line 2: the value of timeout is not valid without quotes",
		"network = bridge\n":                                   `line 1: the value of network is not valid without quotes`,
		"[exec]\nmemory = \"2g\" 3\n":                          "line 2: expected a top-level item to end",
		"[exec]\ntimeout = 60\n":                               `line 2, at exec.timeout: "60" is not a duration`,
		"max_boxes = \"many\"\n":                               "line 1: max_boxes must be a whole number",
		"[http]\nsse = 1\n":                                    "line 2: http.sse must be true or false",
		"images.allow = \"golang\"\n":                          `line 1: images.allow must be a list such as ["a", "b"]`,
		"images.allow = [1]\n":                                 `line 1: images.allow must be a list such as ["a", "b"]`,
		"mounts = 3\n":                                         "line 1: mounts must be sections, each headed [[mounts]]",
		"env = {A = 1}\n":                                      "line 1: env.A must be text in quotes",
		"exec = 3\n":                                           "line 1: exec must be a section, headed [exec] on a line of its own, not a whole number",
		"[exec]\nmemory = \"lots\"\n":                          `"lots" is not a size`,
		"[env]\n\"A B\" = \"x\"\n":                             `env in `,
		"[secrets.give]\nA = \"hunter2\"\n":                    `"env:NAME" or "file:PATH"`,
		"[secrets.give]\nA = \"env:NO_SUCH\"\n":                "the secret A: the environment variable NO_SUCH is not set or empty",
		"[secrets.give]\nA = \"file:/etc/passwd\"\n":           "chmod 600 /etc/passwd",
		"[env]\nA = \"x\"\n[secrets.give]\nA = \"env:HOME\"\n": "A is also in [env]",
		"[commands]\nallow = \"ls\"\n":                         "line 2",
		"commands.examples.ls = [\"ls\"]\n":                    `the examples of "ls": neither allow nor deny has this entry`,
		"commands.allow = [\"ls\"]\ncommands.examples.ls = [\"ls; rm x\"]\n": `the examples of "ls": "ls; rm x" is denied: command not in whitelist: rm`,
		"[shims]\ncommands = [\"bin/cat\"]\n":                                `"bin/cat" cannot be the name of a program with a shim`,
		"[shims]\ncommands = [\"git push\"]\n":                               `"git push" cannot be the name of a program with a shim; a name is that of a file in PATH, without a directory, arguments or patterns`,
		"[shims]\ncommands = [\"*\"]\n":                                      `"*" cannot be the name of a program with a shim`,
		"[shims]\ndeny = {\"-x\" = \"no\"}\n":                                `"-x" cannot be the name of a program with a shim`,
		"[shims]\ndeny = {\".\" = \"no\"}\n":                                 `"." cannot be the name of a program with a shim`,
		"[shims]\ndeny = {rm = \"a\\nb\"}\n":                                 "the sentence for rm must be one line",
		"[shims]\ndeny = {rm = \"\"}\n":                                      "the sentence for rm must not be empty",
		"[shims]\noutput_lines = -1\n":                                       "shims.output_lines in",
		"[exec\n":                                                            "end table name",
		"network = \"host\"\n":                                               `"host" is not one of none, bridge`,
		"#" + strings.Repeat("x", privatefile.MaxSize) + "":                  "more than 1m bytes",
	} {
		clean(t)
		file := writeConfig(t, text)
		_, err := load(map[string]string{"config": file})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.60q: %v\nlacks %q", text, err, want)
		}
	}
}

// TestWrongTypeIsRefused: each setting refuses each value of another type, in a sentence
// that names no type of Go and has an example.
func TestWrongTypeIsRefused(t *testing.T) {
	goType := regexp.MustCompile(`cli\.|map\[|\[\]string|interface|primitive|destination|int64|float64`)
	for _, s := range new(settings).table() {
		for _, value := range []string{`"x"`, "1", "1.5", "true", "2026-01-02", `["a"]`, "[1]", "[[1]]", "[{ a = 1 }]", "{ a = 1 }", "{ a = { b = 1 } }"} {
			err := (&Config{file: "file", origin: map[string]string{}}).decode(s.key + " = " + value + "\n")
			if err != nil && goType.MatchString(err.Error()) {
				t.Errorf("%s = %s: %v", s.key, value, err)
			}
			isTable, isList := strings.HasPrefix(value, "{"), strings.HasPrefix(value, "[")
			if _, list := s.to.(*[]string); !isTable && !isList && !s.isTable() && !list {
				continue
			} else if list && value == `["a"]` || s.key == "mounts" && value == "[{ a = 1 }]" {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), ", line 1: "+s.key) || !strings.Contains(err.Error(), " must be ") {
				t.Errorf("%s = %s: %v", s.key, value, err)
			}
		}
	}
	for text, want := range map[string]string{
		"[shims]\ndeny = [\"rm\"]\n":        `line 2: shims.deny must be a table such as { rm = "Move files to .trash instead." }, not a list`,
		"shims.deny = {rm = 1}\n":           "line 1: shims.deny.rm must be text in quotes, not a whole number",
		"secrets.give = [\"X\"]\n":          `line 1: secrets.give must be a table such as { API_KEY = "env:API_KEY" }, not a list`,
		"env = \"A=1\"\n":                   `line 1: env must be a table such as { GOFLAGS = "-mod=mod" }, not text`,
		"[commands]\nexamples = [\"ls\"]\n": `line 2: commands.examples must be a table such as { "go test" = ["go test ./..."] }, not a list`,
		"commands.examples.ls = \"ls\"\n":   `line 1: commands.examples.ls must be a list such as ["a", "b"], not text`,
		"[exec.timeout]\nx = 1\n":           `line 1: exec.timeout must be text in quotes such as "10m", not a table`,
		"mounts = [\"a\"]\n":                `line 1: mounts must be sections, each headed [[mounts]], such as [[mounts]] and below it source = "/home/me/data", not a list whose item 1 is text`,
		"[[mounts]]\nsource = 1\n":          "mounts.source must be text in quotes, not a whole number",
		"[[exec]]\ncpu = 1\n":               "exec must be a section, headed [exec] on a line of its own, not sections headed [[…]]",
	} {
		err := (&Config{file: "file"}).decode(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nlacks %q", text, err, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]size{
		"0": 0, "17": 17, "1b": 1, "1k": 1 << 10, "64MB": 64 << 20, "64 MiB": 64 << 20, "1.5g": 3 << 29, " 2T ": 2 << 40,
	} {
		var got size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
		var again size
		if err := again.UnmarshalText([]byte(want.String())); err != nil || again != want {
			t.Errorf("%d is written %q and read as %d, %v", want, want, again, err)
		}
	}
	for _, text := range []string{"", "g", "1gg", "1e3", "0x10", "1,5g", "١g", "-1", "nan", "9e99g"} {
		if err := new(size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken for a size", text)
		}
	}
}

func TestMisspeltVariables(t *testing.T) {
	clean(t)
	t.Setenv("WARMBOX_EXEC_TIMEUOT", "1s")
	t.Setenv("WARMBOX_REQUIRE", "docker") // not ours to judge
	t.Setenv("WARMBOX_COMMANDS_ALLOW", "ls")
	t.Setenv("WARMBOX_IMAGES_DEFAULT", "x")
	want := map[string]string{
		"WARMBOX_EXEC_TIMEUOT":   "WARMBOX_EXEC_TIMEOUT",
		"WARMBOX_COMMANDS_ALLOW": "WARMBOX_EXEC_WHITELIST", "WARMBOX_IMAGES_DEFAULT": "WARMBOX_IMAGE", // made of their keys
	}
	if got := maps.Collect(misspelt()); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
