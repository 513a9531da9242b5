package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// printing is a transport that prints all messages of another transport.
type printing struct {
	mcp.Transport
	to io.Writer
}

func (p *printing) Connect(ctx context.Context) (mcp.Connection, error) {
	below, err := p.Transport.Connect(ctx)
	return &printed{Connection: below, to: p.to}, err
}

type printed struct {
	mcp.Connection

	mu   sync.Mutex // guards the fields below; printed messages do not mix
	to   io.Writer
	sent time.Time // when the last message was written
}

func (p *printed) Write(ctx context.Context, m jsonrpc.Message) error {
	p.print("→ client to server", m)
	p.mu.Lock()
	p.sent = time.Now()
	p.mu.Unlock()
	return p.Connection.Write(ctx, m)
}

func (p *printed) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := p.Connection.Read(ctx)
	if err == nil {
		p.mu.Lock()
		took := time.Since(p.sent)
		p.mu.Unlock()
		p.print(fmt.Sprintf("← server to client, after %.1f ms", float64(took.Microseconds())/1000), m)
	}
	return m, err
}

func (p *printed) print(title string, m jsonrpc.Message) {
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		raw = []byte(err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, "%s\n%s\n\n", title, readable(raw))
}

// wide is the maximum number of bytes of JSON on one line.
const wide = 110

// readable formats JSON for people: line breaks in strings become line breaks, so the
// result is not JSON any more.
func readable(raw []byte) string {
	var b strings.Builder
	lay(&b, raw, "  ")
	return "  " + unescape.Replace(b.String())
}

// lay writes a value on one line if it fits, else each of its parts on a line. A schema
// of many small parts stays more readable than with json.Indent.
func lay(b *strings.Builder, raw []byte, indent string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	_, nested := open.(json.Delim)
	if err != nil || !nested || len(raw)+len(indent) <= wide && !bytes.Contains(raw, []byte(`\n`)) {
		b.Write(raw)
		return
	}
	fmt.Fprintf(b, "%v", open)
	for between := "\n"; dec.More(); between = ",\n" {
		b.WriteString(between + indent + "  ")
		if open == json.Delim('{') {
			key, _ := dec.Token()
			fmt.Fprintf(b, "%q: ", key)
		}
		var part json.RawMessage
		if dec.Decode(&part) != nil {
			return // invalid JSON, printed up to the error
		}
		lay(b, part, indent+"  ")
	}
	end, _ := dec.Token()
	fmt.Fprintf(b, "\n%s%v", indent, end)
}

// The escaped backslash comes first, so that it does not turn the character after it
// into an escape.
var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n      ", `\t`, "\t", `\"`, `"`,
	`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
