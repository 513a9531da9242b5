package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/jsonobject"
)

// aliases are other tools' names for our arguments. Each has one meaning in any tool that has
// the argument.
var aliases = map[string]string{
	"command": "cmd", "commandline": "cmd",
	"cwd": "workdir", "dir": "workdir", "directory": "workdir", "workingdir": "workdir", "workingdirectory": "workdir",
	"container": "containerId", "containername": "containerId", "box": "containerId", "boxid": "containerId", "sandbox": "containerId", "sandboxid": "containerId",
	"environment": "env", "envvars": "env",
	"timeout": "timeoutSeconds", "timeoutsec": "timeoutSeconds", "timeoutsecs": "timeoutSeconds",
	"wait": "waitSeconds", "waitsec": "waitSeconds", "waitsecs": "waitSeconds",
	"runinbackground": "background", "isbackground": "background",
	"pty": "tty", "runid": "execId", "commandid": "execId", "jobid": "execId",
	"pattern": "grep", "regex": "grep", "startline": "fromLine",
}

// unitless are the aliases without a unit, whose large values may be milliseconds.
var unitless = []string{"timeout", "wait"}

// leastMillis is the least value of such an alias that is refused: as seconds it is a quarter of
// an hour, as milliseconds one second.
const leastMillis = 1000

// maxAlias bounds the name of an argument that is taken for another.
const maxAlias = 40

// accept rewrites arguments that were refused where they have one meaning: with a known name for
// another name of it, and with numbers and booleans for strings of them. notes say what was
// done; there are none if nothing is clear. An error refuses a value that may have two units.
func accept(tool mcp.Tool, args json.RawMessage) (accepted json.RawMessage, notes []string, err error) {
	var schema struct {
		Properties map[string]struct{ Type string }
	}
	if !json.Valid(args) || bytes.TrimLeft(args, " \t\r\n")[0] != '{' || json.Unmarshal(tool.RawInputSchema, &schema) != nil {
		return nil, nil, nil
	}
	members := map[string]json.RawMessage{}
	if jsonobject.Each(args, func(name string, value json.RawMessage) error { members[name] = value; return nil }) != nil {
		return nil, nil, nil
	}
	clear := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, known := members[name], name
		if _, ok := schema.Properties[name]; !ok {
			known = cmp.Or(meant(name, slices.Collect(maps.Keys(schema.Properties))), idFor(name, value))
			if _, ok := schema.Properties[known]; !ok {
				return nil, nil, nil
			}
			_, given := members[known]
			_, twice := clear[known]
			if known == "" || given || twice {
				return nil, nil, nil
			}
			if f, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64); err == nil && f >= leastMillis && slices.Contains(unitless, plainName(name)) {
				return nil, nil, invalid(fmt.Sprintf("Give %s, in seconds.", known), "%s %v may be seconds or milliseconds", plainName(name), f)
			}
			notes = append(notes, fmt.Sprintf("used %s for %s", known, name))
		}
		typed, changed := unquoted(schema.Properties[known].Type, value)
		if changed {
			notes = append(notes, fmt.Sprintf("used %s for %s, not a string", typed, known))
		}
		clear[known] = typed
	}
	if len(notes) == 0 {
		return nil, nil, nil
	}
	accepted, err = json.Marshal(clear)
	return accepted, notes, err
}

// meant returns the argument that another name clearly stands for, or "".
func meant(name string, known []string) string {
	if len(name) > maxAlias {
		return ""
	}
	plain := plainName(name)
	for _, k := range known {
		if plainName(k) == plain || aliases[plain] == k {
			return k
		}
	}
	return ""
}

// idFor returns the argument for an id that is given as id: its first letter tells what it names.
func idFor(name string, value json.RawMessage) string {
	switch {
	case plainName(name) != "id":
		return ""
	case bytes.HasPrefix(value, []byte(`"e-`)):
		return "execId"
	case bytes.HasPrefix(value, []byte(`"b-`)):
		return "containerId"
	}
	return ""
}

// unquoted returns the number or boolean that a string has, for an argument of that type.
func unquoted(kind string, value json.RawMessage) (typed json.RawMessage, changed bool) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return value, false
	}
	switch kind {
	case "boolean":
		changed = text == "true" || text == "false"
	case "number", "integer":
		_, err := strconv.ParseFloat(text, 64)
		changed = err == nil && json.Valid([]byte(text)) && len(text) <= maxAlias
	}
	if !changed {
		return value, false
	}
	return json.RawMessage(text), true
}
