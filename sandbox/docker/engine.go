package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
)

// An engine is a client of an engine that answered, with what the engine says
// about itself. It embeds the concrete client: an interface of all that this
// package calls would only mirror it, and tests answer HTTP requests instead.
type engine struct {
	*client.Client
	endpoint endpoint
	info     system.Info
	podman   bool      // behind Docker's API
	cleanups *cleanups // of containers that it could not remove in time
}

// key identifies an engine on disk: one address may lead to another engine later.
func (e *engine) key() string {
	sum := sha256.Sum256([]byte(e.endpoint.Host + "\x00" + e.info.ID))
	return hex.EncodeToString(sum[:16])
}

// identity identifies an engine wherever it listens. Podman reports another id each
// time.
func (e *engine) identity() string {
	id := e.info.ID
	if id == "" || e.podman {
		id = e.endpoint.Host
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
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

// local reports whether the engine listens on this machine, so that a path may mean
// the same to both.
func (e *engine) local() bool {
	return strings.HasPrefix(e.endpoint.Host, "unix://") || strings.HasPrefix(e.endpoint.Host, "npipe://")
}

// answered reports whether err is an answer of the engine, and not a connection that
// failed or an engine that hangs.
func (e *engine) answered(err error) bool {
	return !client.IsErrConnectionFailed(err) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, errUpgrade) && !errors.Is(err, errHangs) && !shutsDown(err)
}

// shutsDown reports whether an error comes from an engine that shuts down: for a
// moment it accepts requests after it has closed the database of its volumes.
func shutsDown(err error) bool {
	return err != nil && strings.Contains(err.Error(), "database not open")
}

// gone reports whether the engine says that an object to remove does not exist, or
// is being removed.
func gone(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")
}

// sanitize makes text of an engine, an image or a box fit for a sentence: one line,
// no control characters, at most so many bytes.
func sanitize(s string, most int) string {
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
