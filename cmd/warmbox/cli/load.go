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
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/warmbox/warmbox/privatefile"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/spell"
	"github.com/warmbox/warmbox/userdir"
)

// config is the settings of one start of the program, and where they came from.
type Config struct {
	settings
	file   string            // the file that was read, "" for none
	origin map[string]string // by key, in words; a default has none
	paths  *hostpath.Guard   // of this machine, that boxes have
}

// load lays the sources over each other: the defaults, the file, the
// environment, the flags that were given. What it returns is checked.
func load(flags map[string]string) (*Config, error) {
	c := &Config{origin: map[string]string{}}
	for _, s := range c.table() {
		if s.def != "" {
			if err := set(s.to, s.def); err != nil {
				panic(fmt.Sprintf("default of %s: %v", s.key, err))
			}
		}
	}
	if err := c.loadFile(flags[configFlag]); err != nil {
		return nil, err
	}
	for _, s := range c.table() {
		if err := c.override(s, flags); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

// override takes a setting from the environment, then from its flag. An empty
// variable counts for nothing: many clients pass on variables that they lack.
func (c *Config) override(s setting, flags map[string]string) error {
	env := os.Getenv(s.env)
	if err := c.take(s, "the environment variable "+s.env, env, env != ""); err != nil {
		return err
	}
	text, given := flags[s.flag]
	return c.take(s, "--"+s.flag, text, given)
}

func (c *Config) take(s setting, origin, text string, given bool) error {
	if !given {
		return nil
	}
	c.origin[s.key] = origin
	if err := set(s.to, text); err != nil {
		return fmt.Errorf("%s: %w", origin, err)
	}
	return nil
}

// configFlag is the flag that names the file. It is no setting: a file cannot
// name itself.
const configFlag = "config"

// loadFile reads the file that was named, or the one in its usual place, which
// need not be there.
func (c *Config) loadFile(name string) error {
	if name == "" {
		name = os.Getenv(envPrefix + "CONFIG")
	}
	named := name != ""
	if !named {
		dir, err := userdir.Config()
		if err != nil {
			return nil // no home, no file
		}
		name = filepath.Join(dir, "config.toml")
	}
	text, err := privatefile.ReadTrusted(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the configuration file: %w", err)
	}
	c.file = name
	return c.decode(text)
}

func (c *Config) decode(text string) error {
	md, err := toml.Decode(text, &c.settings)
	if err != nil {
		return fmt.Errorf("%s: %s", c.file, strings.TrimPrefix(err.Error(), "toml: "))
	}
	// The decoder takes a key in any case, and then two keys for one setting.
	known := c.keys()
	for _, key := range md.Keys() {
		if !slices.Contains(known, key.String()) && !c.inTable(key) {
			return fmt.Errorf("%s, line %d: there is no setting %s%s", c.file, keyLine(text, key), key, didYouMean(key.String(), known))
		}
	}
	for _, s := range c.table() {
		if md.IsDefined(strings.Split(s.key, ".")...) {
			c.origin[s.key] = s.key + " in " + c.file
		}
	}
	return nil
}

// inTable reports whether a key is one that the user may choose, within a
// setting that is a table.
func (c *Config) inTable(key toml.Key) bool {
	table := key[:len(key)-1].String()
	return slices.ContainsFunc(c.table(), func(s setting) bool {
		if _, ok := s.to.(*[]mountSetting); ok && s.key == table {
			return slices.Contains([]string{"source", "target", "mode"}, key[len(key)-1])
		}
		return s.key == table && reflect.TypeOf(s.to).Elem().Kind() == reflect.Map
	})
}

// keys lists all that a file may have: settings, and the sections that they
// are in.
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

// keyLine finds the line of a key. The decoder knows it, and tells it only in
// the error of a value that refuses to be decoded.
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

// misspelt yields the environment variables that look like ours and mean
// nothing, each with the one that was probably meant. They are no errors:
// another version may know them.
func misspelt() iter.Seq2[string, string] {
	known := []string{"CONFIG"}
	byKey := map[string]string{} // the real names of those that are not made of their keys
	for _, s := range new(settings).table() {
		name := strings.TrimPrefix(s.env, envPrefix)
		known = append(known, name)
		byKey[variable(keyFlag(s.key))] = name
	}
	return func(yield func(name, meant string) bool) {
		for _, pair := range os.Environ() {
			variable, _, _ := strings.Cut(pair, "=")
			name, ours := strings.CutPrefix(variable, envPrefix)
			if !ours || slices.Contains(known, name) {
				continue
			}
			if meant := cmp.Or(byKey[name], spell.Nearest(name, known)); meant != "" && !yield(variable, envPrefix+meant) {
				return
			}
		}
	}
}
