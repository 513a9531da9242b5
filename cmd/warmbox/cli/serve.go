package cli

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/warmbox/warmbox/server"
	"github.com/warmbox/warmbox/tools"
)

// Servers returns the commands stdio and http, which run a server.
func Servers() []Command { return []Command{stdioCommand(), httpCommand()} }

func stdioCommand() Command {
	return Command{
		Name: "stdio", Loud: true,
		Short: "serves one client over standard input and output; what warmbox does without a command",
		Long: "Serves one MCP client over standard input and output. The client starts it; it ends, and every box with it,\n" +
			"when its standard input ends or on SIGTERM, SIGINT or SIGHUP. A second signal ends it at once, and its boxes end by\n" +
			"themselves.",
		Run: serveStdio,
	}
}

func httpCommand() Command {
	var showToken bool
	return Command{
		Name: "http", Loud: true,
		Short: "serves many clients over HTTP",
		Long: "Serves MCP clients over streamable HTTP at /mcp. Each client shows a token, and has boxes of its own. Where there\n" +
			"is no file with tokens, one is made and kept. It ends, and every box with it, on SIGTERM, SIGINT or SIGHUP.\n" +
			"A second signal ends it at once, and its boxes end by themselves.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&showToken, "show-token", false, "tells on standard error how to add it to a client, token and all, though that is no terminal")
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
		fmt.Fprintln(c.Stderr, "warmbox speaks MCP here, and a client should be at the other end. See warmbox help; Ctrl-C ends it.")
	}
	defer signOff(s.Manager)
	return s.ServeStdio(ctx, c.Stdin, c.Stdout)
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
			// Standard error may be kept by whoever started us, and a token in
			// a journal is one that others read. A terminal keeps nothing.
			if showToken || IsTerminal(c.Stderr) {
				fmt.Fprintf(c.Stderr, "To add it to a client:\n\n  %s\n\n", ring.line(url, true))
			}
		},
	})
}

// url is where clients find what listens on an address. Where that is every
// address of the machine, the first name that they may call it by is the best
// that is known.
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

// needs refuses a setting that means nothing without another.
func needs(value, other, name string) error {
	if value == "" || other != "" {
		return nil
	}
	return fmt.Errorf("it needs %s beside it", name)
}

// checkHTTP tells how to add `warmbox http` to a client. What doctors say is
// shown around, so it names the file of the token, which a shell reads.
func (d *doctor) checkHTTP() {
	file, err := ownTokenFile()
	if d.Config.HTTP.TokenFile == "" && err == nil {
		if _, err := os.Lstat(file); os.IsNotExist(err) {
			d.ok("http", "warmbox http makes a token when it starts for the first time, in "+file)
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

// warnOfVariables tells of environment variables that mean nothing: a list of
// commands that was set by one would not hold.
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
	set.Owner, set.Hurried = server.Owner, server.Hurried
	if c.Config.Commands.OnDeny == "ask" {
		set.Ask = tools.DefaultAsk
	}
	return &server.Server{Manager: manager, Tools: set.Tools(), Resources: set.Resources(), Version: Version(), Logger: c.Log}, nil
}
