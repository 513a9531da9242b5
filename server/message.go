package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/jsonobject"
)

const (
	// maxBody is the largest body of a request. A command may have a mebibyte, which
	// is two as JSON if it consists of quotes and line ends; the rest is room for its
	// input and other arguments. Only a command of control characters, six bytes
	// each, would need more.
	maxBody = 4 << 20

	// maxDrain is how much of a larger body is read and discarded. Most clients read
	// the reply only when they have sent the whole body.
	maxDrain = 32 << 20

	// bodyTimeout is how long a request may take to arrive.
	bodyTimeout = time.Minute
)

// An envelope is a message and the parts of it that the server needs before mcp-go parses
// it. A request has a method and an id, a notification a method, an answer neither: it has
// a result or an error.
type envelope struct {
	body   []byte
	id     json.RawMessage // as the client wrote it; nil: none
	method string
	params json.RawMessage

	result, fault json.RawMessage // of an answer

	tool   string          // the name of the called tool
	target json.RawMessage // the id of the request that a notification is about
	modern string          // the protocol version, if the message names one without sessions
	client string          // the name of the client, in such a message
}

// answers reports whether a message is the answer to a question of ours.
func (m *envelope) answers() bool { return m.result != nil || m.fault != nil }

// A fault is a JSON-RPC error: why a message is not served.
type fault struct {
	code int
	id   json.RawMessage // of the request; nil if it is unknown
	text string
}

func (f *fault) Error() string { return f.text }

// message returns the reply.
func (f *fault) message() mcp.JSONRPCError {
	return mcp.NewJSONRPCError(requestID(f.id), f.code, f.text, nil)
}

// requestID returns an id as the client wrote it. mcp-go reads numbers as floating point,
// which is not exact above 2^53.
func requestID(raw json.RawMessage) mcp.RequestId {
	if raw == nil {
		return mcp.NewRequestId(nil)
	}
	return mcp.NewRequestId(raw)
}

// readMessage reads the message of a request.
func readMessage(w http.ResponseWriter, r *http.Request) (envelope, error) {
	body, err := readBody(w, r)
	if err != nil {
		return envelope{}, err
	}
	m, err := parseMessage(body)
	if err != nil {
		return envelope{}, &refusal{http.StatusBadRequest, err}
	}
	return m, nil
}

// readBody reads the body of a request, bounded in size and time. It accepts only a content
// type that a web page cannot send without a preflight request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body did not arrive within "+bodyTimeout.String())
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body did not arrive: "+err.Error())
	case len(body) > maxBody:
		io.CopyN(io.Discard, r.Body, maxDrain)
		return nil, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"a message must have at most %d MiB; write large input to a file in the box, piece by piece", maxBody>>20))
	}
	rc.SetReadDeadline(time.Time{})
	return body, nil
}

const (
	// maxID is the longest id, which every reply repeats.
	maxID = 1024

	// maxShown is how many characters of a message an error quotes.
	maxShown = 40
)

// parseMessage parses a message and refuses one that other JSON parsers could read in another
// way. encoding/json, which mcp-go uses, ignores the case of names, takes the last of two
// members and replaces bytes that are not UTF-8; a proxy that checked the message may have
// read another one. An error is a *fault.
func parseMessage(body []byte) (envelope, error) {
	m := envelope{body: body}
	if err := checkJSON(body); err != nil {
		return m, err
	}
	version, err := m.readMembers()
	code := mcp.INVALID_REQUEST
	if err == nil {
		err = m.check(version)
	}
	if err == nil {
		code, err = mcp.INVALID_PARAMS, m.readParams()
	}
	if err == nil {
		return m, nil
	}
	f := &fault{code: code, text: "invalid message: " + err.Error()}
	// The id of an answer is ours: the client would take an error with that id for the
	// reply to a request of its own.
	if checkID(m.id) == nil && !m.answers() {
		f.id = m.id
	}
	return m, f
}

// checkJSON refuses a text that is not a JSON object. encoding/json bounds its depth at
// 10,000, which is cheap.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return &fault{mcp.PARSE_ERROR, nil, "the message is not JSON: it is not UTF-8"}
	}
	if !json.Valid(body) {
		var v json.RawMessage
		return &fault{mcp.PARSE_ERROR, nil, fmt.Sprintf("the message is not JSON: %v", json.Unmarshal(body, &v))}
	}
	switch bytes.TrimLeft(body, " \t\r\n")[0] {
	case '{':
		return nil
	case '[':
		return &fault{mcp.INVALID_REQUEST, nil, "invalid message: it is not a JSON object; send the messages of a batch one by one"}
	}
	return &fault{mcp.INVALID_REQUEST, nil, "invalid message: it is not a JSON object"}
}

// readMembers reads the members of a message, and returns its version of JSON-RPC.
func (m *envelope) readMembers() (version json.RawMessage, err error) {
	var wrong error
	err = eachMember(m.body, func(name string, value json.RawMessage) error {
		switch name {
		case "jsonrpc":
			version = value
		case "id":
			m.id = value
		case "method":
			if value[0] != '"' {
				wrong = cmp.Or(wrong, fmt.Errorf("method must be a string, got %.*s", maxShown, value))
				return nil
			}
			return json.Unmarshal(value, &m.method)
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.fault = value
		default:
			wrong = cmp.Or(wrong, fmt.Errorf("JSON-RPC has no member %.*q", maxShown, name))
		}
		return nil
	})
	if err != nil {
		m.id = nil // the message may have another one
	}
	return version, cmp.Or(err, wrong)
}

// check refuses a message that is not a request, a notification or an answer.
func (m *envelope) check(version json.RawMessage) error {
	if err := checkID(m.id); err != nil && !m.answers() {
		return err
	}
	switch {
	case string(version) != `"2.0"`:
		return errors.New(`jsonrpc must be "2.0"`)
	case m.method == "" && !m.answers():
		return errors.New("a message must have a method, a result or an error")
	case m.method != "" && m.answers():
		return errors.New("a message must not have a method together with a result or an error")
	}
	return nil
}

// checkID refuses an id that is neither a string nor a number, and a number that is too large
// for floating point, which mcp-go cannot read.
func checkID(id json.RawMessage) error {
	if id == nil {
		return nil
	}
	if len(id) > maxID {
		return fmt.Errorf("id must have at most %d bytes, got %d", maxID, len(id))
	}
	if id[0] == '"' {
		return nil
	}
	if id[0] != '-' && (id[0] < '0' || '9' < id[0]) {
		return fmt.Errorf("id must be a string or a number, got %.*s", maxShown, id)
	}
	if _, err := strconv.ParseFloat(string(id), 64); err != nil {
		return fmt.Errorf("id must be a number that a 64-bit float can represent, got %.*s", maxShown, id)
	}
	return nil
}

// readParams reads the parameters that the server needs, by the same names as mcp-go.
func (m *envelope) readParams() error {
	if m.params == nil || string(m.params) == "null" {
		return nil
	}
	if m.params[0] != '{' {
		return fmt.Errorf("params must be an object, got %.*s", maxShown, m.params)
	}
	return eachMember(m.params, func(name string, value json.RawMessage) error {
		if known := looksLike(name); known != "" {
			return fmt.Errorf("the member %.*q of params must be spelled %q", maxShown, name, known)
		}
		switch name {
		case "_meta":
			return m.readMeta(value)
		case "name":
			if value[0] == '"' {
				return json.Unmarshal(value, &m.tool)
			}
		case "arguments":
			if value[0] == '{' {
				return eachMember(value, func(string, json.RawMessage) error { return nil })
			}
		case "requestId":
			m.target = value
		}
		return nil
	})
}

// readMeta reads the protocol version and the name of the client, if the message has them:
// versions without sessions send both in every message.
func (m *envelope) readMeta(value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}
	if value[0] != '{' {
		return fmt.Errorf("_meta must be an object, got %.*s", maxShown, value)
	}
	named := false
	err := eachMember(value, func(name string, _ json.RawMessage) error {
		named = named || name == mcp.MetaKeyProtocolVersion
		return nil
	})
	if err != nil || !named {
		return err
	}
	var meta mcp.Meta
	if err := json.Unmarshal(value, &meta); err != nil {
		return err
	}
	if version := meta.ProtocolVersion(); mcp.IsModernProtocol(version) {
		m.modern = version
	}
	if info := meta.ClientInfo(); info != nil {
		m.client = info.Name
	}
	return nil
}

// looksLike returns the parameter that other parsers could take a misspelt name for, or "". It
// knows the parameters that decide what is done, and for whom.
func looksLike(name string) string {
	known := []string{"name", "arguments", "uri", "requestId", "protocolVersion", "capabilities", "clientInfo", "_meta"}
	plain := strings.TrimRight(name, "\x00")
	i := slices.IndexFunc(known, func(k string) bool { return k != name && strings.EqualFold(k, plain) })
	if i < 0 {
		return ""
	}
	return known[i]
}

// eachMember calls f for the members of an object, which is valid JSON, in their order. A
// member that occurs twice is an error.
func eachMember(object []byte, f func(name string, value json.RawMessage) error) error {
	err := jsonobject.Each(object, f)
	if twice, ok := errors.AsType[*jsonobject.DuplicateError](err); ok {
		return fmt.Errorf("the message has the member %.*q twice", maxShown, twice.Name)
	}
	return err
}
