package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/warmbox/warmbox/sandbox"
)

// A connector finds an engine and holds the connection to it. After the engine has
// stopped answering, the next call searches all endpoints for an engine again.
type connector struct {
	host     string // as in Config
	logger   *slog.Logger
	cleanups *cleanups

	mu     sync.Mutex
	engine *engine // nil until one has answered
	hang   hang    // the last engine that did not
}

// A hang is the last time that an engine left a request unanswered.
type hang struct {
	err error
	at  time.Time
}

const (
	// connectTime bounds the time in which an engine must answer, all endpoints
	// together.
	connectTime = 4500 * time.Millisecond

	// hangTime is how long an engine that hung is assumed to hang still. Without it
	// each caller that is queued behind another would wait for the whole of
	// connectTime.
	hangTime = time.Second
)

// connect returns the engine, and searches for one if none is known. A failure is
// not remembered, except for hangTime where an engine hangs.
func (c *connector) connect(ctx context.Context) (*engine, error) {
	c.mu.Lock()
	e, hang := c.engine, c.hang
	c.mu.Unlock()
	if e != nil {
		return e, nil
	}
	if hang.err != nil && time.Since(hang.at) < hangTime {
		return nil, hang.err
	}
	e, err := find(ctx, c.host, c.cleanups)
	if err != nil {
		return nil, c.recordHang(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine != nil { // another caller was faster
		e.Close()
		return c.engine, nil
	}
	c.engine = e
	c.logger.Debug("engine found", "engine", e.endpoint.Host, "by", e.endpoint.Origin, "version", e.info.ServerVersion)
	return e, nil
}

// lost drops an engine whose connection failed, and makes err say so. An error that
// the engine answered is returned as it is.
func (c *connector) lost(ctx context.Context, e *engine, err error) error {
	if ctx.Err() != nil || e.answered(err) {
		return err
	}
	c.mu.Lock()
	if c.engine == e {
		c.engine = nil
		e.Close()
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return c.recordHang(ctx, unreachable(e.endpoint, cause(ctx, e.Client, err), nil))
}

// recordHang returns err, and records it if it says that an engine hangs.
func (c *connector) recordHang(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, errHangs) || errors.Is(err, context.DeadlineExceeded)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hang = hang{err, time.Now()}
	}
	return err
}

// close closes the connection, if there is one.
func (c *connector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine != nil {
		c.engine.Close()
	}
	c.engine = nil
}

// find dials all endpoints at once and returns the first in their order that
// answers. So one that hangs costs time only where it is the only one.
func find(ctx context.Context, host string, cleanups *cleanups) (*engine, error) {
	endpoints, err := endpoints(host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	type answer struct {
		*engine
		err error
	}
	answers := make([]answer, len(endpoints))
	done := make([]chan struct{}, len(endpoints))
	var all sync.WaitGroup
	for i, ep := range endpoints {
		done[i] = make(chan struct{})
		all.Go(func() {
			defer close(done[i])
			answers[i].engine, answers[i].err = dial(ctx, ep, cleanups)
		})
	}
	var found *engine
	errs := make([]error, len(endpoints))
	for i := range endpoints {
		<-done[i]
		if errs[i] = answers[i].err; errs[i] == nil {
			found = answers[i].engine
			break
		}
	}
	cancel()
	all.Wait()
	for _, a := range answers {
		if a.err == nil && a.engine != found {
			a.Close()
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, noneAnswers(endpoints, errs)
}

// noneAnswers is the error of a search that found no engine. It names the endpoint
// that the user may not open, or else the likeliest one.
func noneAnswers(endpoints []endpoint, errs []error) error {
	if len(endpoints) == 0 {
		return &sandbox.Error{Code: sandbox.DockerUnavailable, Text: "No Docker Engine is configured, and this system has no usual place for one.", Hint: hintEngine}
	}
	for i, ep := range endpoints {
		if errors.Is(errs[i], fs.ErrPermission) {
			return unreachable(ep, errs[i], nil)
		}
	}
	return unreachable(endpoints[0], errs[0], endpoints[1:])
}

// dial connects to one endpoint.
func dial(ctx context.Context, ep endpoint, cleanups *cleanups) (*engine, error) {
	transport, err := ep.transport()
	if err != nil {
		return nil, err
	}
	c, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(ep.Host), client.WithVersionFromEnv(), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	ping, err := c.Ping(ctx)
	if err == nil {
		c.NegotiateAPIVersionPing(ping)
		var info system.Info
		if info, err = c.Info(ctx); err == nil {
			return &engine{Client: c, endpoint: ep, info: info, podman: info.InitBinary == "" && isPodman(ctx, c), cleanups: cleanups}, nil
		}
	}
	defer c.Close()
	return nil, cause(ctx, c, err)
}

// isPodman asks an engine for its components. The caller does not ask Docker, whose
// info names an init program: Docker would run that and more to answer.
func isPodman(ctx context.Context, c *client.Client) bool {
	version, err := c.ServerVersion(ctx)
	return err == nil && slices.ContainsFunc(version.Components, func(part types.ComponentVersion) bool { return part.Name == "Podman Engine" })
}

// cause returns why a connection failed. The client's error says only that it did.
func cause(ctx context.Context, c *client.Client, err error) error {
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	if client.IsErrConnectionFailed(err) {
		conn, derr := c.Dialer()(ctx)
		if derr != nil {
			return derr
		}
		conn.Close()
	}
	return err
}

const hintEngine = "Start Docker (or Podman's socket), or name an engine with --docker-host or DOCKER_HOST."

// hintGroup is for an engine whose socket the user may not open.
const hintGroup = "Join the group that owns the socket (on Linux mostly: sudo usermod -aG docker $USER, then log in again; its members are as good as root), or name another engine with --docker-host."

// unreachable is the error of an endpoint at which no engine answers.
func unreachable(ep endpoint, err error, others []endpoint) error {
	if errors.Is(err, fs.ErrPermission) {
		text := fmt.Sprintf("Cannot reach the Docker Engine at %s: this user may not use its socket (%s).", ep.Host, reason(err))
		return &sandbox.Error{Code: sandbox.DockerUnavailable, Text: text, Hint: hintGroup, Err: err}
	}
	text := fmt.Sprintf("Cannot reach the Docker Engine at %s (%s). Is it running? Try: docker ps.", ep.Host, reason(err))
	if len(others) > 0 {
		hosts := make([]string, len(others))
		for i, o := range others {
			hosts[i] = o.Host
		}
		text += " Other endpoints tried: " + strings.Join(hosts, ", ") + "."
	}
	return &sandbox.Error{Code: sandbox.DockerUnavailable, Text: text, Hint: hintEngine, Err: err}
}

// reason is the innermost cause, without the client's advice around it.
func reason(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within 5 s"
	case err == nil:
		return "no answer"
	}
	return sanitize(err.Error(), 300)
}
