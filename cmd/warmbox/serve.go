package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/warmbox/warmbox/server"
)

func stdioCommand() command {
	return command{
		name: "stdio", loud: true,
		short: "serves one client over standard input and output; what warmbox does without a command",
		long: "Serves one MCP client over standard input and output. The client starts it; it ends, and every box with it,\n" +
			"when its standard input ends or on SIGTERM, SIGINT or SIGHUP.",
		run: serveStdio,
	}
}

func httpCommand() command {
	return command{
		name: "http", loud: true,
		short: "serves many clients over HTTP",
		long: "Serves MCP clients over streamable HTTP at /mcp. Each client has boxes of its own. It ends, and every box\n" +
			"with it, on SIGTERM, SIGINT or SIGHUP.",
		run: serveHTTP,
	}
}

func serveStdio(ctx context.Context, c *call) error {
	s, err := newServer(c)
	if err != nil {
		return err
	}
	if isTerminal(c.stdin) {
		fmt.Fprintln(c.stderr, "warmbox speaks MCP here, and a client should be at the other end. See warmbox help; Ctrl-C ends it.")
	}
	return s.ServeStdio(ctx, c.stdin, c.stdout)
}

func serveHTTP(ctx context.Context, c *call) error {
	token, err := readToken(c.config.HTTP.TokenFile)
	if err != nil {
		return err
	}
	s, err := newServer(c)
	if err != nil {
		return err
	}
	h := c.config.HTTP
	return s.ListenAndServe(ctx, server.HTTP{
		Listen: h.Listen, Token: token, SSE: h.SSE, AllowHosts: h.AllowHosts, AllowOrigins: h.AllowOrigins,
		Ready: func(addr net.Addr) { c.log.Info("serving", "url", "http://"+addr.String()+"/mcp") },
	})
}

func newServer(c *call) (*server.Server, error) {
	for name, meant := range misspelt() {
		c.log.Warn("unknown environment variable", "name", name, "meant", meant)
	}
	manager, err := newManager(c.config, c.log)
	if err != nil {
		return nil, err
	}
	set, err := newTools(c.config, manager, c.log)
	if err != nil {
		return nil, err
	}
	set.Owner, set.Hurried = server.Owner, server.Hurried
	return &server.Server{Manager: manager, Tools: set.Tools(), Resources: set.Resources(), Version: version(), Logger: c.log}, nil
}

func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := readFile(file)
	token := strings.TrimSpace(text)
	switch {
	case err == nil && token == "":
		err = errors.New("there is nothing in " + file)
	case err == nil && strings.ContainsAny(token, " \t\r\n"):
		err = errors.New(file + " has more than one word, and a token is one")
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	return token, nil
}
