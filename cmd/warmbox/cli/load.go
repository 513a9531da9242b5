package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/warmbox/warmbox/privatefile"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/spell"
	"github.com/warmbox/warmbox/userdir"
)

// A Config is the settings of one run of the program, and their sources.
type Config struct {
	settings
	file   string            // the file that was read, "" if none
	origin map[string]string // source of each setting that is not a default, by key, for messages
	paths  *hostpath.Guard   // paths of this machine that boxes have
}

// load applies the defaults, the file, the environment and the given flags, in this
// order, and checks the result.
func load(flags map[string]string) (*Config, error) { return loadPreset(nil, flags) }

// A preset is a flag of a command that stands for several settings.
type preset struct {
	flag   string            // "--guide"
	values map[string]string // by key of the setting
}

// loadPreset is load with a preset, which the given flags override, nil for none.
func loadPreset(p *preset, flags map[string]string) (*Config, error) {
	c := &Config{origin: map[string]string{}}
	for _, s := range c.table() {
		if s.def != "" {
			if err := set(s.to, s.def); err != nil {
				panic(fmt.Sprintf("default of %s: %v", s.key, err))
			}
		}
	}
	if err := c.loadFile(flags[configFlag]); err != nil {
		return nil, &fileError{err}
	}
	for _, s := range c.table() {
		if err := c.override(s, p, flags); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

// override sets a setting from the environment, then from the preset, then from its flag.
// An empty variable is ignored: many clients pass on variables that are not set.
func (c *Config) override(s setting, p *preset, flags map[string]string) error {
	env := os.Getenv(s.env)
	if err := c.set(s, "the environment variable "+s.env, env, env != ""); err != nil {
		return err
	}
	if p != nil {
		text, given := p.values[s.key]
		if err := c.set(s, p.flag, text, given); err != nil {
			return err
		}
	}
	text, given := flags[s.flag]
	return c.set(s, "--"+s.flag, text, given)
}

func (c *Config) set(s setting, origin, text string, given bool) error {
	if !given {
		return nil
	}
	c.origin[s.key] = origin
	if err := set(s.to, text); err != nil {
		return fmt.Errorf("%s: %w", origin, err)
	}
	return nil
}

// configFlag is the flag that names the file. It is not a setting, because a file
// cannot name itself.
const configFlag = "config"

// loadFile reads the named file, or the one in the default place, which need not
// exist.
func (c *Config) loadFile(name string) error {
	if name == "" {
		name = os.Getenv(envPrefix + "CONFIG")
	}
	named := name != ""
	if !named {
		dir, err := userdir.Config()
		if err != nil {
			return nil // without a home directory there is no default file
		}
		name = filepath.Join(dir, "config.toml")
	}
	text, err := privatefile.ReadTrusted(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the configuration file %s does not exist; correct the path of --config or %sCONFIG, or create the file (warmbox config prints an example)", name, envPrefix)
	}
	if err != nil {
		return fmt.Errorf("cannot read the configuration file: %w", err)
	}
	c.file = name
	return c.decode(text)
}

func (c *Config) decode(text string) error {
	var file map[string]any
	md, err := toml.Decode(text, &file)
	if err != nil {
		return c.undecoded(text, err)
	}
	if bad := c.checkTypes(file); bad != nil {
		return fmt.Errorf("%s: %s", c.position(text, bad.key), bad.sentence())
	}
	// The decoder ignores the case of a key, so one setting could have two keys.
	known := c.keys()
	for _, key := range md.Keys() {
		if to := movedKeys[key.String()]; to != "" {
			return fmt.Errorf("%s: %s is now %s", c.position(text, key), key, to)
		}
		if !slices.Contains(known, key.String()) && !c.inTable(key) {
			return fmt.Errorf("%s: unknown setting %s%s", c.position(text, key), key, didYouMean(key.String(), known))
		}
	}
	if _, err := toml.Decode(text, &c.settings); err != nil {
		return c.undecoded(text, err)
	}
	for _, s := range c.table() {
		if md.IsDefined(strings.Split(s.key, ".")...) {
			c.origin[s.key] = c.fileOrigin(s.key)
		}
	}
	return nil
}

// movedKeys are former keys of settings, and what to write instead.
var movedKeys = map[string]string{
	"audit_file": "file in the section [audit]; replace the line by a line [audit], at the end of the file, and below it: file = \"…\"",
}

func (c *Config) fileOrigin(key string) string { return key + " in " + c.file }

// fromFile reports whether the value of a setting is the one in the configuration file.
func (c *Config) fromFile(key string) bool { return c.file != "" && c.origin[key] == c.fileOrigin(key) }

// A fileError is a mistake in the configuration file.
type fileError struct{ error }

func (e *fileError) Unwrap() error { return e.error }

// decoderError matches what the decoder says of a value: the line, the key and the reason.
var decoderError = regexp.MustCompile(`^toml: line (\d+)(?: \(last key "(.*)"\))?: (?s:(.*))$`)

// undecoded rewords an error of the decoder.
func (c *Config) undecoded(text string, err error) error {
	match := decoderError.FindStringSubmatch(err.Error())
	if match == nil {
		return fmt.Errorf("%s: %w", c.file, err)
	}
	line, key, why := match[1], match[2], match[3]
	at := c.file + ", line " + line
	switch {
	case syntaxError.MatchString(why):
		return fmt.Errorf("%s: %s", at, explain(text, line, why))
	case key != "":
		at += ", at " + key
	}
	return fmt.Errorf("%s: %s", at, why)
}

// syntaxError matches what the decoder says of a value that lacks its quotes, among others.
var syntaxError = regexp.MustCompile(`^expected (a top-level item to end with|value but found) `)

// bare matches a line with a value that is not quoted.
var bare = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+)\s*=\s*([^\s"'\[{#][^"'#]*?)\s*(#.*)?$`)

// explain rewords an error in the syntax of a line.
func explain(text, line, why string) string {
	n, _ := strconv.Atoi(line)
	lines := strings.Split(text, "\n")
	if n < 1 || n > len(lines) {
		return why
	}
	match := bare.FindStringSubmatch(lines[n-1])
	if match == nil {
		return why
	}
	return fmt.Sprintf(`the value of %s is not valid without quotes; text, sizes and durations are quoted, such as "bridge", "2g" and "10m"`, match[1]) // a value may be a secret
}

// inTable reports whether a key lies in a setting that is a table, where the user
// chooses the keys.
func (c *Config) inTable(key toml.Key) bool {
	table := key[:len(key)-1].String()
	return slices.ContainsFunc(c.table(), func(s setting) bool {
		if _, ok := s.to.(*[]mountSetting); ok && s.key == table {
			return slices.Contains([]string{"source", "target", "mode"}, key[len(key)-1])
		}
		return s.key == table && reflect.TypeOf(s.to).Elem().Kind() == reflect.Map
	})
}

// keys lists the keys that a file may have: settings and their sections.
func (c *Config) keys() []string {
	var known []string
	for _, s := range c.table() {
		if section, _, ok := strings.Cut(s.key, "."); ok && !slices.Contains(known, section) {
			known = append(known, section)
		}
		known = append(known, s.key)
	}
	return known
}

// position returns the file and, where keyLine finds it, the line of a key.
func (c *Config) position(text string, key toml.Key) string {
	if line := keyLine(text, key); line > 0 {
		return fmt.Sprintf("%s, line %d", c.file, line)
	}
	return c.file
}

// keyLine finds the line of a key, or returns 0 for one in an array of tables. The
// decoder reports a line only in the error of a value that fails to decode.
func keyLine(text string, key toml.Key) int {
	var tables map[string]toml.Primitive
	md, err := toml.Decode(text, &tables)
	last := len(key) - 1
	for _, name := range key[:last] {
		if err == nil {
			table := tables[name]
			tables = nil
			err = md.PrimitiveDecode(table, &tables)
		}
	}
	if err == nil {
		err = md.PrimitiveDecode(tables[key[last]], new(undecodable))
	}
	refusal, _ := errors.AsType[toml.ParseError](err)
	return refusal.Position.Line
}

type undecodable struct{}

func (*undecodable) UnmarshalTOML(any) error { return errors.New("refused") }

// scriptVariables are read by the scripts of the repository, which start warmbox too.
var scriptVariables = []string{"BASE", "ENGINE_DATA", "ENGINE_RUN", "REQUIRE", "RUN", "WEEKLY"}

// misspelt yields environment variables with our prefix that are unknown, each with
// the nearest known one. They are not errors: another version may know them.
func misspelt() iter.Seq2[string, string] {
	known := []string{"CONFIG"}
	byKey := map[string]string{} // names of settings whose flag differs from the key
	for _, s := range new(settings).table() {
		name := strings.TrimPrefix(s.env, envPrefix)
		known = append(known, name)
		byKey[variable(keyFlag(s.key))] = name
	}
	return func(yield func(name, meant string) bool) {
		for _, pair := range os.Environ() {
			variable, _, _ := strings.Cut(pair, "=")
			name, ours := strings.CutPrefix(variable, envPrefix)
			if !ours || slices.Contains(known, name) || slices.Contains(scriptVariables, name) {
				continue
			}
			if meant := cmp.Or(byKey[name], spell.Nearest(name, known)); meant != "" && !yield(variable, envPrefix+meant) {
				return
			}
		}
	}
}
