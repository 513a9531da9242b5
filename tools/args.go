package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/jsonobject"
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/spell"
)

// A param is an argument of a tool and the destination of its value: a *string, *bool, **int,
// **float64 or *map[string]string. An argument that is missing or null leaves it unchanged.
type param struct {
	name string
	to   any
}

// parse parses the arguments of a call into params. encoding/json alone ignores unknown names
// and the case of names, and takes the last of two members: each of these could run another
// command than the model meant.
func parse(req mcp.CallToolRequest, params []param) error {
	raw, err := rawArguments(req)
	if err != nil {
		return err
	}
	tool := req.Params.Name
	if !json.Valid(raw) {
		var v json.RawMessage
		return invalid("", "the arguments of %s are not valid JSON: %v", tool, json.Unmarshal(raw, &v))
	}
	return eachMember(raw, "the arguments of "+tool, func(name string, value json.RawMessage) error {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if i < 0 {
			return unknown(tool, name, params)
		}
		if string(value) == "null" {
			return nil
		}
		return assign(params[i], value)
	})
}

// rawArguments returns the arguments as the client wrote them, an empty object if it sent none.
func rawArguments(req mcp.CallToolRequest) (json.RawMessage, error) {
	switch args := req.GetRawArguments().(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if string(bytes.TrimSpace(args)) == "null" {
			return json.RawMessage("{}"), nil
		}
		return args, nil
	default:
		return json.Marshal(args)
	}
}

// eachMember calls f for the members of a JSON object in their order. A member that
// occurs twice is an error. The object is what a sentence calls the arguments.
func eachMember(object json.RawMessage, what string, f func(name string, value json.RawMessage) error) error {
	if bytes.TrimLeft(object, " \t\r\n")[0] != '{' {
		return invalid("Give an object such as {\"name\": \"value\"}.", "%s must be an object, got %s", what, show(object))
	}
	err := jsonobject.Each(object, f)
	if twice, ok := errors.AsType[*jsonobject.DuplicateError](err); ok {
		return invalid("Give each name only once.", "%s have %s twice", what, quote(twice.Name))
	}
	return err
}

// assign parses a value into its destination.
func assign(p param, value json.RawMessage) error {
	switch to := p.to.(type) {
	case *string:
		if value[0] != '"' {
			return wrongType(p.name, "a string", value)
		}
		return json.Unmarshal(value, to)
	case **int:
		f, err := number(p.name, value)
		if err == nil && (f != math.Trunc(f) || math.Abs(f) > math.MaxInt32) {
			return wrongType(p.name, "a whole number", value)
		}
		*to = new(int(f))
		return err
	case **float64:
		f, err := number(p.name, value)
		*to = new(f)
		return err
	case *bool:
		if json.Unmarshal(value, to) != nil {
			return wrongType(p.name, "true or false", value)
		}
		return nil
	case *map[string]string:
		return assignMap(p.name, to, value)
	}
	panic(fmt.Sprintf("tools: argument %s goes to a %T", p.name, p.to))
}

// number parses a number.
func number(name string, value json.RawMessage) (float64, error) {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, wrongType(name, "a number", value)
	}
	return f, nil
}

// assignMap parses an object of strings.
func assignMap(name string, to *map[string]string, value json.RawMessage) error {
	if value[0] != '{' {
		return wrongType(name, "an object of strings", value)
	}
	*to = map[string]string{}
	return eachMember(value, "the members of "+name, func(key string, value json.RawMessage) error {
		var s string
		if err := assign(param{name + "." + clip(key), &s}, value); err != nil {
			return err
		}
		(*to)[key] = s
		return nil
	})
}

// wrongType returns the error of an argument of another type.
func wrongType(name, want string, value json.RawMessage) error {
	return invalid("", "%s must be %s, got %s", name, want, show(value))
}

// invalid returns the error of a wrong argument.
func invalid(hint, format string, args ...any) error {
	return sandbox.Errorf(sandbox.InvalidArgument, hint, format, args...)
}

// unknown returns the error for an unknown argument. Its hint names the nearest known one.
func unknown(tool, name string, params []param) error {
	var names []string
	for _, p := range params {
		names = append(names, p.name)
	}
	hint := "The arguments of " + tool + ": " + strings.Join(names, ", ") + "."
	if len(names) == 0 {
		hint = tool + " takes no arguments."
	} else if near := nearest(name, names); near != "" {
		hint = fmt.Sprintf("Did you mean %q? %s", near, hint)
	}
	return invalid(hint, "%s has no argument %s", tool, quote(name))
}

// nearest returns the argument that a name probably stands for, or "": the one that
// other tools call so, one that begins alike, or one that is spelt alike.
func nearest(name string, names []string) string {
	plain := plainName(name)
	if len(plain) > 30 {
		return ""
	}
	if word := synonym(plain); slices.Contains(names, word) {
		return word
	}
	var plains []string
	for _, n := range names {
		p := plainName(n)
		if p == plain || len(plain) > 3 && (strings.HasPrefix(p, plain) || strings.HasPrefix(plain, p)) {
			return n
		}
		plains = append(plains, p)
	}
	if i := spell.Closest(plain, plains, 1+len(plain)/5); i >= 0 {
		return names[i]
	}
	return ""
}

// plainName returns a name in lower case, without separators.
func plainName(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// synonym returns our name for what other tools call name, or "".
func synonym(name string) string {
	switch name {
	case "command", "script", "code", "shell", "bash", "run", "args", "argv":
		return "cmd"
	case "cwd", "dir", "directory", "workingdir", "workingdirectory", "path":
		return "workdir"
	case "container", "id", "box", "boxid", "sandbox", "sandboxid", "session", "sessionid":
		return "containerId"
	case "environment", "envvars", "variables":
		return "env"
	case "input":
		return "stdin"
	case "pattern", "regex", "search", "query":
		return "grep"
	case "offset", "from", "startline":
		return "fromLine"
	case "runid", "commandid", "jobid", "logid":
		return "execId"
	case "yieldtimems", "wait", "yield":
		return "waitSeconds"
	case "timeoutms", "timeoutsec", "limit":
		return "timeoutSeconds"
	case "runinbackground", "isbackground", "detach", "detached", "async":
		return "background"
	case "pty", "terminal":
		return "tty"
	case "maxoutput", "maxchars", "maxoutputtokens":
		return "maxBytes"
	}
	return ""
}

// show renders a JSON value for an error message: compact, inert, short.
func show(raw json.RawMessage) string {
	return clip(excerpt.Inert(bytes.Join(bytes.Fields(raw[:min(len(raw), 400)]), []byte(" "))))
}

// quote renders an untrusted string for an error message.
func quote(s string) string { return strconv.Quote(clip(s)) }

// maxQuoted is how many bytes of an argument an error message repeats.
const maxQuoted = 80

// clip bounds an argument.
func clip(s string) string { return excerpt.Clip(s, maxQuoted) }
