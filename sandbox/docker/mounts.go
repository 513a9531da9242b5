package docker

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// addMounts adds the mounts of a spec to a plan. It refuses a place that the box
// itself needs, and a source that boxes can replace.
func (l *Launcher) addMounts(ctx context.Context, e *engine, p *plan, spec sandbox.Spec) error {
	mounts := spec.Mounts
	if len(mounts) > 0 && !e.local() {
		return sandbox.Errorf(sandbox.InvalidArgument, "Leave mounts out, or use an engine on this machine.",
			"The engine at %s is on another machine, which does not have %s of this machine.", e.endpoint.Host, mounts[0].Source)
	}
	for _, m := range mounts {
		if !mountable(m.Target) {
			return sandbox.Errorf(sandbox.InvalidArgument, "Choose another target, such as /skills, /etc/ssl/certs or a directory below /home/agent.",
				"Nothing can be mounted at %q: it must be an absolute path without . and .., and must not be, contain or lie in a directory that the box itself needs, such as /workspace.", sanitize(m.Target, 300))
		}
		f, err := l.openPath(ctx, e, spec, m.Source)
		if err != nil {
			return unusable("a mount", m.Source, err)
		}
		m.Source = f.Path
		p.request.Mounts = append(p.request.Mounts, m)
		p.show(m.Target, f, false)
	}
	return nil
}

// openPath opens a path of the host that the owner named for boxes.
func (l *Launcher) openPath(ctx context.Context, e *engine, spec sandbox.Spec, path string) (*hostpath.File, error) {
	return spec.Paths.Open(path, func() ([]string, error) { return l.writtenByOthers(ctx, e) })
}

// unusable says why a path of the host cannot serve as what it was named for. An
// error of an engine is returned as it is.
func unusable(what, path string, err error) error {
	hint := "Name what exists on this machine."
	refusal, refused := errors.AsType[*hostpath.Refusal](err)
	if refused {
		hint = refusal.Hint
	}
	if _, absent := errors.AsType[*fs.PathError](err); !absent && !refused {
		return err
	}
	return sandbox.Errorf(sandbox.InvalidArgument, hint, "Cannot use %s as %s: %w", sanitize(path, 300), what, err)
}

// mountable reports whether a mount may have a target: neither a place of ours or of
// the kernel's, nor above or in one. In the workspace the engine would create the
// mount point on the host.
func mountable(target string) bool {
	if !path.IsAbs(target) || target == "/" || path.Clean(target) != target || target != sanitize(target, maxPath) {
		return false
	}
	for _, place := range []string{home, "/tmp", agentDir, socketDir, workspaceDir, "/proc", "/sys", "/dev", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} {
		if below(place, target) || below(target, place) && place != home && place != "/tmp" {
			return false
		}
	}
	return true
}
