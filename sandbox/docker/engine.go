package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/warmbox/warmbox/sandbox"
)

// An engine is a client of an engine that answered, with what the engine says
// about itself. It embeds the concrete client: an interface of all that this
// package calls would only mirror it, and tests answer HTTP requests instead.
type engine struct {
	*client.Client
	endpoint endpoint
	info     system.Info
	podman   bool     // behind Docker's API
	errands  *errands // of whoever connected
}

// answerTime is how long an engine may take to say that it is there, all
// endpoints together.
const answerTime = 4500 * time.Millisecond

// connect returns the engine, looking for one where none is known. A failure
// is not remembered, but for a moment where the engine hangs.
func (l *Launcher) connect(ctx context.Context) (*engine, error) {
	l.mu.Lock()
	e, silence := l.engine, l.silence
	l.mu.Unlock()
	if e != nil {
		return e, nil
	}
	if silence.err != nil && time.Since(silence.at) < silenceTime {
		return nil, silence.err
	}
	e, err := find(ctx, l.config.Host)
	if err != nil {
		return nil, l.noted(ctx, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engine != nil { // somebody else was quicker
		e.Close()
		return l.engine, nil
	}
	e.errands = l.errands
	l.engine = e
	l.logger.Debug("engine found", "engine", e.endpoint.Host, "by", e.endpoint.Origin, "version", e.info.ServerVersion)
	return e, nil
}

// lost forgets an engine that did not answer, and says so.
func (l *Launcher) lost(ctx context.Context, e *engine, err error) error {
	if ctx.Err() != nil || e.answers(err) {
		return err
	}
	l.mu.Lock()
	if l.engine == e {
		l.engine = nil
		e.Close()
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return l.noted(ctx, unreachable(e.endpoint, cause(ctx, e.Client, err), nil))
}

// answers reports whether err is something that the engine said, and not the
// want of an answer.
func (e *engine) answers(err error) bool {
	return !client.IsErrConnectionFailed(err) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, errNoUpgrade) && !errors.Is(err, errSilent) && !leaving(err)
}

// leaving reports whether an engine said that it is about to end: it takes requests
// for a moment after it has closed what it keeps its volumes in.
func leaving(err error) bool { return err != nil && strings.Contains(err.Error(), "database not open") }

// find asks all endpoints at once and takes the first in their order that
// answers, so that one that hangs costs a wait only where it is the only one.
func find(ctx context.Context, host string) (*engine, error) {
	endpoints, err := endpoints(host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
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
			answers[i].engine, answers[i].err = ask(ctx, ep)
		})
	}
	var found *engine
	for i := range endpoints {
		if <-done[i]; answers[i].err == nil {
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
	if len(endpoints) == 0 {
		return nil, &sandbox.Error{Code: sandbox.DockerUnavailable, Text: "No Docker Engine is configured, and there is no usual place for one on this system.", Hint: hintEngine}
	}
	for i, ep := range endpoints {
		if errors.Is(answers[i].err, fs.ErrPermission) {
			return nil, unreachable(ep, answers[i].err, nil)
		}
	}
	return nil, unreachable(endpoints[0], answers[0].err, endpoints[1:])
}

const hintEngine = "Start Docker (or Podman's socket), or name an engine with --docker-host or DOCKER_HOST."

// hintGroup is for an engine that is there and whose socket the user may not open.
const hintGroup = "Become a member of the group that owns the socket (on Linux mostly: sudo usermod -aG docker $USER, then log in again; its members are as good as root), or name another engine with --docker-host."

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
	return clean(err.Error(), 300)
}

// ask connects to one endpoint.
func ask(ctx context.Context, ep endpoint) (*engine, error) {
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
			return &engine{Client: c, endpoint: ep, info: info, podman: info.InitBinary == "" && isPodman(ctx, c)}, nil
		}
	}
	defer c.Close()
	return nil, cause(ctx, c, err)
}

// isPodman asks an engine what it is. Docker, which says in its info what init it
// has, need not be asked: it would run that init and more to answer.
func isPodman(ctx context.Context, c *client.Client) bool {
	version, err := c.ServerVersion(ctx)
	return err == nil && slices.ContainsFunc(version.Components, func(part types.ComponentVersion) bool { return part.Name == "Podman Engine" })
}

// cause finds out why there was no connection: the client tells only that.
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

// gone reports whether the engine says that what was to be removed is not
// there any more, or will not be in a moment.
func gone(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")
}

// has reports whether the engine lists a security option.
func (e *engine) has(option string) bool {
	for _, o := range e.info.SecurityOptions {
		for field := range strings.SplitSeq(o, ",") {
			if field == "name="+option || field == option {
				return true
			}
		}
	}
	return false
}

// local reports whether the engine listens on this machine, so that a path may
// mean the same to both.
func (e *engine) local() bool {
	return strings.HasPrefix(e.endpoint.Host, "unix://") || strings.HasPrefix(e.endpoint.Host, "npipe://")
}

// clean makes text of an engine, an image or a box fit for a sentence: one
// line, no control characters, bounded.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
