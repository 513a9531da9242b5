package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
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

// An envelope is a message with what the door must know of it.
type envelope struct {
	body   []byte
	method string
	modern bool   // of a protocol version that knows no sessions
	client string // the name that the client gives itself, there
	answer bool   // to a question of ours
}

// readMessage takes one message from a client. How deep it nests, encoding/json
// bounds: at 10,000, which costs nothing.
func readMessage(w http.ResponseWriter, r *http.Request) (envelope, error) {
	body, err := readBody(w, r)
	if err != nil {
		return envelope{}, err
	}
	m, err := parseMessage(body)
	if err != nil {
		return envelope{}, refuse(http.StatusBadRequest, "the body is not one JSON-RPC message: "+err.Error())
	}
	m.modern = m.modern || isModern(r)
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

// parseMessage reads a message so that nobody else can read another one out of
// it. encoding/json, which mcp-go uses, takes names in any case and the last of
// two; whoever looked at the message before it, and let it pass, may have taken
// the first.
func parseMessage(body []byte) (envelope, error) {
	m := envelope{body: body}
	err := eachMember(body, func(name string, value json.RawMessage) error {
		switch name {
		case "jsonrpc":
			return nil
		case "result", "error":
			m.answer = true
			return nil
		case "id":
			return checkID(value)
		case "method":
			if value[0] != '"' {
				return fmt.Errorf("a method is a string, and this is %.40s", value)
			}
			return json.Unmarshal(value, &m.method)
		case "params":
			return m.readParams(value)
		}
		return fmt.Errorf("JSON-RPC knows no member %.40q", name)
	})
	m.answer = m.answer && m.method == ""
	return m, err
}

func checkID(value json.RawMessage) error {
	if c := value[0]; c == '"' || c == '-' || '0' <= c && c <= '9' {
		return nil
	}
	return fmt.Errorf("an id is a string or a number, and this is %.40s", value)
}

// readParams finds out what protocol a message follows, by the same signs as
// mcp-go.
func (m *envelope) readParams(value json.RawMessage) error {
	if value[0] != '{' {
		return nil // what else is wrong with them, mcp-go says better
	}
	var meta *mcp.Meta
	err := eachMember(value, func(name string, value json.RawMessage) error {
		if known := looksLike(name); known != "" {
			return fmt.Errorf("the member %.40q of params is not %q", name, known)
		}
		if name == "_meta" {
			json.Unmarshal(value, &meta)
		}
		return nil
	})
	m.modern = mcp.IsModernProtocol(meta.ProtocolVersion())
	if info := meta.ClientInfo(); info != nil {
		m.client = info.Name
	}
	return err
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

// eachMember calls f for the members of a JSON object in their order, and
// refuses one that comes twice, and whatever follows the object.
func eachMember(object []byte, f func(name string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("it is no JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name := key.(string) // no other token may stand there
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("it has the member %.40q twice", name)
		}
		seen[name] = true
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}
