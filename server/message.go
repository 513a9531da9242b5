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
	// maxBody is the largest request that is taken. A command may have a
	// mebibyte, of which JSON makes two if it is all quotes and line ends; the
	// rest is room for input and what else comes with it. Only one that is all
	// control characters, six bytes each, would need more.
	maxBody = 4 << 20

	// maxDrain is how much of a request that is too large is read and thrown
	// away. Most clients read an answer only when they have sent all.
	maxDrain = 32 << 20

	// bodyTimeout is how long a request may take to arrive.
	bodyTimeout = time.Minute
)

// An envelope is a message, with what has to be known of it before mcp-go sees it.
// A request has a method and an id, a notification a method, an answer neither: it
// has a result or an error.
type envelope struct {
	body   []byte
	id     json.RawMessage // as the client wrote it; nil where there is none
	method string
	params json.RawMessage

	result, fault json.RawMessage // of an answer

	tool   string          // that is called
	target json.RawMessage // the request that a notification is about
	modern string          // the protocol version that the message names, where that knows no sessions
	client string          // the name that the client gives itself, there
}

// answers reports whether a message answers a question of ours.
func (m *envelope) answers() bool { return m.result != nil || m.fault != nil }

// A fault is why a message is not served, in the terms of JSON-RPC.
type fault struct {
	code int
	id   json.RawMessage // of the request; nil where it has none that can be told
	text string
}

func (f *fault) Error() string { return f.text }

// message is what the client is told.
func (f *fault) message() mcp.JSONRPCError {
	return mcp.NewJSONRPCError(requestID(f.id), f.code, f.text, nil)
}

// requestID is an id as the client wrote it. mcp-go reads numbers as floating
// point, which holds no id above 2^53.
func requestID(raw json.RawMessage) mcp.RequestId {
	if raw == nil {
		return mcp.NewRequestId(nil)
	}
	return mcp.NewRequestId(raw)
}

// readMessage takes one message from a client over HTTP.
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

// readBody takes only what a web page cannot send without asking first, and
// only so much of it, in so much time.
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
			"a message of more than %d MiB is not taken; write large input to a file in the box, piece by piece", maxBody>>20))
	}
	rc.SetReadDeadline(time.Time{})
	return body, nil
}

const (
	// maxID is the longest id, which every answer repeats.
	maxID = 1024

	// maxShown is how much a refusal quotes.
	maxShown = 40
)

// parseMessage reads a message so that nobody else can read another one out of
// it. encoding/json, which mcp-go uses, takes names in any case and the last of
// two, and makes other characters of bytes that are none; whoever looked at the
// message before it, and let it pass, may have read something else. An error is a
// *fault.
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
	f := &fault{code: code, text: "the message is not taken: " + err.Error()}
	// The id of an answer is ours: told what is wrong with it under that id, the
	// client would take it for the answer to a request of its own.
	if checkID(m.id) == nil && !m.answers() {
		f.id = m.id
	}
	return m, f
}

// checkJSON refuses what is no JSON object. How deep one nests, encoding/json
// bounds: at 10,000, which costs nothing.
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
		return &fault{mcp.INVALID_REQUEST, nil, "the message is not taken: it is no JSON object; send the messages of a batch one by one"}
	}
	return &fault{mcp.INVALID_REQUEST, nil, "the message is not taken: it is no JSON object"}
}

// readMembers finds the parts of a message, and returns the version of JSON-RPC
// that it names.
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
				wrong = cmp.Or(wrong, fmt.Errorf("a method is a string, and this is %.*s", maxShown, value))
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
			wrong = cmp.Or(wrong, fmt.Errorf("JSON-RPC knows no member %.*q", maxShown, name))
		}
		return nil
	})
	if err != nil {
		m.id = nil // it may be another's
	}
	return version, cmp.Or(err, wrong)
}

// check refuses what is neither a request, nor a notification, nor an answer.
func (m *envelope) check(version json.RawMessage) error {
	if err := checkID(m.id); err != nil && !m.answers() {
		return err
	}
	switch {
	case string(version) != `"2.0"`:
		return errors.New(`"jsonrpc" is not "2.0"`)
	case m.method == "" && !m.answers():
		return errors.New("it has neither a method nor a result or an error")
	case m.method != "" && m.answers():
		return errors.New("it has both a method and a result or an error")
	}
	return nil
}

// checkID refuses an id that is neither a string nor a number. A number beyond
// what floating point reaches mcp-go cannot read at all.
func checkID(id json.RawMessage) error {
	if id == nil {
		return nil
	}
	if len(id) > maxID {
		return fmt.Errorf("an id has at most %d bytes, and this one %d", maxID, len(id))
	}
	if id[0] == '"' {
		return nil
	}
	if id[0] != '-' && (id[0] < '0' || '9' < id[0]) {
		return fmt.Errorf("an id is a string or a number, and this is %.*s", maxShown, id)
	}
	if _, err := strconv.ParseFloat(string(id), 64); err != nil {
		return fmt.Errorf("the id %.*s is too large a number", maxShown, id)
	}
	return nil
}

// readParams finds out whom and what a message is about, by the same signs as
// mcp-go.
func (m *envelope) readParams() error {
	if m.params == nil || string(m.params) == "null" {
		return nil
	}
	if m.params[0] != '{' {
		return fmt.Errorf("params is an object, and this is %.*s", maxShown, m.params)
	}
	return eachMember(m.params, func(name string, value json.RawMessage) error {
		if known := looksLike(name); known != "" {
			return fmt.Errorf("the member %.*q of params is not %q", maxShown, name, known)
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

// readMeta finds out what protocol a message follows. Where one names its version
// here, the client says in every message who it is.
func (m *envelope) readMeta(value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}
	if value[0] != '{' {
		return fmt.Errorf("_meta is an object, and this is %.*s", maxShown, value)
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

// looksLike returns the parameter that a name would be taken for without being
// it, or "". It knows those that decide what is done, and for whom.
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
		return fmt.Errorf("it has the member %.*q twice", maxShown, twice.Name)
	}
	return err
}
