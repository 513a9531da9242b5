package cli

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/warmbox/warmbox/server"
	"github.com/warmbox/warmbox/tools"
)

// Servers returns the commands stdio and http, which run a server.
func Servers() []Command { return []Command{stdioCommand(), httpCommand()} }

func stdioCommand() Command {
	return Command{
		Name: "stdio", Loud: true,
		Short: "serves one MCP client over standard input and output",
		Long: "Serves one MCP client over standard input and output. The client starts it. It stops, with all its boxes, when\n" +
			"its standard input ends or on SIGTERM, SIGINT or SIGHUP. A second signal stops it at once, and its boxes end by\n" +
			"themselves.",
		Run: serveStdio, Refuse: refuseStdio,
	}
}

func httpCommand() Command {
	var showToken bool
	return Command{
		Name: "http", Loud: true,
		Short: "serves many MCP clients over HTTP",
		Long: "Serves MCP clients over streamable HTTP at /mcp. Each client sends a token, and has boxes of its own. Without a\n" +
			"token file, one is generated. The server stops, with all its boxes, on SIGTERM, SIGINT or SIGHUP. A second\n" +
			"signal stops it at once, and its boxes end by themselves.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&showToken, "show-token", false, "print how to add the server to a client, including the token, also if standard error is not a terminal")
		},
		Run: func(ctx context.Context, c *Call) error { return serveHTTP(ctx, c, showToken) },
	}
}

func serveStdio(ctx context.Context, c *Call) error {
	s, err := newServer(c)
	if err != nil {
		return err
	}
	if IsTerminal(c.Stdin) {
		fmt.Fprintln(c.Stderr, "warmbox expects an MCP client on standard input. See warmbox help; Ctrl-C stops it.")
	}
	defer signOff(s.Manager)
	c.started = true
	return s.ServeStdio(ctx, c.Stdin, c.Stdout)
}

// refuseTimeout is how long a program that cannot start waits for the first request. Clients
// send it at once.
const refuseTimeout = 5 * time.Second

// refuseStdio answers the first request of a client with an error, which hosts show. Of a
// program that exits without an answer they show only that the connection is closed.
func refuseStdio(ctx context.Context, c *Call, why string) {
	if IsTerminal(c.Stdin) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refuseTimeout)
	defer cancel()
	server.RefuseStdio(ctx, c.Stdin, c.Stdout, "warmbox cannot start: "+why)
}

func serveHTTP(ctx context.Context, c *Call, showToken bool) error {
	ring, err := c.Config.keyring()
	if err != nil {
		return err
	}
	s, err := newServer(c)
	if err != nil {
		return err
	}
	defer signOff(s.Manager)
	h := c.Config.HTTP
	return s.ListenAndServe(ctx, server.HTTP{
		Listen: h.Listen, Tokens: ring.tokens, Cert: h.TLSCert, Key: h.TLSKey, Insecure: h.Insecure, SSE: h.SSE,
		AllowHosts: h.AllowHosts, AllowOrigins: h.AllowOrigins, MaxConns: h.MaxConnections, MaxRate: h.MaxRate,
		Ready: func(addr net.Addr) {
			url := c.Config.url(addr.String())
			c.Log.Info("serving", "url", url, "tokens", ring.file)
			// The parent process may store standard error, and others could read the
			// token in a journal. A terminal stores nothing.
			if showToken || IsTerminal(c.Stderr) {
				fmt.Fprintf(c.Stderr, "To add it to a client:\n\n  %s\n\n", ring.line(url, true))
			}
		},
	})
}

// url returns the URL of the server for clients. If it listens on all addresses, the
// first allowed host name is the best guess.
func (c *Config) url(listen string) string {
	scheme := "http"
	if c.HTTP.TLSCert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(listen)
	if len(c.HTTP.AllowHosts) > 0 {
		host = c.HTTP.AllowHosts[0]
	} else if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/mcp"
}

func (c *Config) httpRules() []rule {
	h := &c.HTTP
	return []rule{
		{"http.tls_cert", needs(h.TLSCert, h.TLSKey, "http.tls_key")},
		{"http.tls_key", needs(h.TLSKey, h.TLSCert, "http.tls_cert")},
		{"http.tls_cert", c.makeAbsolute(&h.TLSCert, isRegular, "a file")},
		{"http.tls_key", c.makeAbsolute(&h.TLSKey, isRegular, "a file")},
		{"http.max_connections", between(h.MaxConnections, 1, 100_000)},
		{"http.max_rate", between(h.MaxRate, 1, 100_000)},
	}
}

// needs refuses a setting that has no effect without another.
func needs(value, other, name string) error {
	if value == "" || other != "" {
		return nil
	}
	return fmt.Errorf("needs %s too", name)
}

// checkHTTP prints how to add `warmbox http` to a client. Users share the output of
// doctor, so it names the token file and not the token.
func (d *doctor) checkHTTP() {
	file, err := ownTokenFile()
	if d.Config.HTTP.TokenFile == "" && err == nil {
		if _, err := os.Lstat(file); os.IsNotExist(err) {
			d.ok("http", "warmbox http will generate a token at its first start, in "+file)
			return
		}
	}
	ring, err := d.Config.keyring()
	if err != nil {
		d.fail("http", err)
		return
	}
	d.say("ok", "http", "to add warmbox http to a client:", ring.line(d.Config.url(d.Config.HTTP.Listen), false))
}

// warnOfVariables logs unknown environment variables: a list of commands in a misspelt
// one has no effect.
func (c *Call) warnOfVariables() {
	for name, meant := range misspelt() {
		c.Log.Warn("unknown environment variable", "name", name, "meant", meant)
	}
}

func newServer(c *Call) (*server.Server, error) {
	c.warnOfVariables()
	manager, err := newManager(c.Config, c.Log)
	if err != nil {
		return nil, err
	}
	set, err := newTools(c.Config, manager, c.Log)
	if err != nil {
		return nil, err
	}
	set.Owner, set.NoWait = server.Owner, server.NoWait
	if c.Config.Commands.OnDeny == "ask" {
		set.Ask = tools.DefaultAsk
	}
	return &server.Server{Manager: manager, Tools: set.Tools(), Resources: set.Resources(), Version: Version(), Logger: c.Log}, nil
}
