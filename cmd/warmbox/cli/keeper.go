package cli

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/keeper"
	"github.com/warmbox/warmbox/server"
	"github.com/warmbox/warmbox/userdir"
)

// The programs of `warmbox run --box NAME` share a persistent box. A process of its own, the
// keeper, holds the box for all of them: none of them has to outlive the others.

const (
	keeperName = "box-keeper"

	// keeperLinger is how long a keeper waits for the next client. A host that restarts its
	// servers finds the box attached.
	keeperLinger = 3 * time.Second
)

// keeperCommand is what `run --box` starts. Users do not.
func keeperCommand() Command {
	var box string
	return Command{
		Name: keeperName, Hidden: true,
		Short: "holds a box for the programs of warmbox run --box, which starts it",
		Flags: func(fs *flag.FlagSet) { fs.StringVar(&box, "box", "", "`NAME` of the box") },
		Run:   func(ctx context.Context, c *Call) error { return c.keep(ctx, box) },
	}
}

// A report is a line that a keeper writes for the program that started it.
type report struct {
	Progress string `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Code     string `json:"code,omitempty"`
	Error    string `json:"error,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

// keep holds a box until it has had no client for some time.
func (c *Call) keep(ctx context.Context, name string) error {
	out := json.NewEncoder(c.Stdout)
	ready := func() {
		out.Encode(report{Ready: true})
		if f, ok := c.Stdout.(io.Closer); ok {
			f.Close() // the program that reads it may end before this one
		}
	}
	err := c.keepBox(ctx, name, ready, func(line string) { out.Encode(report{Progress: line}) })
	if errors.Is(err, keeper.ErrServed) {
		ready()
		return nil
	}
	if err != nil {
		// The program that reads it says what it was doing, too.
		r := report{Code: sandbox.Internal, Error: strings.TrimPrefix(err.Error(), "start a box: ")}
		if e, ok := errors.AsType[*sandbox.Error](err); ok {
			r.Code, r.Hint = e.Code, e.Hint
		}
		out.Encode(r)
	}
	return err
}

func (c *Call) keepBox(ctx context.Context, name string, ready func(), progress func(string)) error {
	socket, err := c.keeperSocket(name)
	if err != nil {
		return err
	}
	door, err := keeper.Acquire(ctx, socket)
	if err != nil {
		return err
	}
	defer func() {
		door.Release()
		if err := c.sweepRecords(); err != nil {
			c.Log.Warn("cannot remove the settings of boxes that are gone", "err", err)
		}
	}()
	manager, err := newManager(c.Config, c.Log)
	if err != nil {
		return err
	}
	defer signOff(manager)
	defer manager.Close() // detaches from the box
	owner := server.Owner(ctx)
	if err := heldElsewhere(ctx, manager, owner, name); err != nil {
		return err
	}
	box, _, err := manager.Start(ctx, owner, sandbox.Request{Name: name, Persistent: true, Progress: progress})
	if err != nil {
		return err
	}
	if err := c.checkBirth(socket+recordSuffix, box.ID); err != nil {
		return err
	}
	l, err := door.Listen()
	if err != nil {
		return fmt.Errorf("listen for the programs of the box: %w", err)
	}
	ready()
	k := &keeper.Keeper{Box: box, Settings: c.boxSettings(), Linger: keeperLinger, Logger: c.Log}
	k.Serve(ctx, l)
	return nil
}

// heldElsewhere refuses a box that another program has: an agent has one host.
func heldElsewhere(ctx context.Context, m *sandbox.Manager, owner sandbox.Owner, name string) error {
	launcher, ok := m.Launcher.(*docker.Launcher)
	if !ok {
		return nil
	}
	boxes, err := launcher.Boxes(ctx)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		if p := b.Persistent; p == nil || !b.Alive || !b.Running || p.Name != name || p.Principal != owner.Principal {
			continue
		}
		who := "another warmbox server"
		if b.Holder > 0 {
			who = fmt.Sprintf("the warmbox server with process id %d", b.Holder)
		}
		return sandbox.Errorf(sandbox.LimitReached,
			"End that server: its persistent boxes stay, and then run can have this one. Or use another name.",
			"%s has the box %q, and a box has one server at a time; an MCP server takes all persistent boxes of its user when its client connects", who, name)
	}
	return nil
}

// keepersDir returns the directory of sockets and records of keepers. It may not exist.
func keepersDir() (string, error) {
	state, err := userdir.State()
	if err != nil {
		return "", fmt.Errorf("no directory for the socket of the box: %w; set XDG_STATE_HOME", err)
	}
	return filepath.Join(state, "keepers"), nil
}

// keeperSocket returns where the keeper of a box listens, in a directory that only the user
// can enter.
func (c *Call) keeperSocket(name string) (string, error) {
	dir, err := keepersDir()
	if err != nil {
		return "", err
	}
	if err := c.Config.private().MkdirAll(dir); err != nil {
		return "", fmt.Errorf("the directory for sockets of boxes: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700)
	}
	sum := sha256.Sum256([]byte(name)) // a name is no file name
	return filepath.Join(dir, hex.EncodeToString(sum[:8])), err
}

// unshaped are the settings, or the tables of settings, that do not shape a box.
var unshaped = []string{
	"pool", "log", "output", "summary", "http", "exec.timeout", "exec.wait", "exec.on_disconnect", "exec.max_runs", "exec.spare_shells",
	"max_boxes", "idle_timeout", "keep_for", "on_full", "grace", "images.allow", "secrets.env", "workspace_roots", "docker.path",
	"commands.on_deny", "commands.examples", "env", "secrets.give",
}

// boxSettings are the settings that shape a box and what may run in it. The values of
// variables may be secret, so only their hashes are compared.
func (c *Call) boxSettings() map[string]string {
	list := map[string]string{}
	for _, s := range c.Config.table() {
		table, _, _ := strings.Cut(s.key, ".")
		if !slices.Contains(unshaped, s.key) && !slices.Contains(unshaped, table) {
			list[s.key] = fmt.Sprint(reflect.ValueOf(s.to).Elem().Interface())
		}
	}
	env, _ := c.Config.environment() // check has refused errors
	for name, value := range env {
		sum := sha256.Sum256([]byte(name + "=" + value))
		list[keeper.Variable+name] = hex.EncodeToString(sum[:])
	}
	return list
}

// keptManager returns a manager whose boxes are the box of a name, by way of its keeper.
func (c *Call) keptManager(name string, log *slog.Logger) (*sandbox.Manager, error) {
	if c.Config.Backend != "docker" {
		return nil, Usagef("run --box needs the docker backend; boxes of the %s backend end with their program", c.Config.Backend)
	}
	logs, err := newLogs(c.Config, log)
	if err != nil {
		return nil, err
	}
	socket, err := c.keeperSocket(name)
	if err != nil {
		return nil, err
	}
	return &sandbox.Manager{
		Launcher: &keeper.Client{
			Socket: socket, Settings: c.boxSettings(),
			Start: func(ctx context.Context, progress func(string)) error {
				return c.startKeeper(ctx, name, socket, progress)
			},
		},
		Logs: logs, Logger: log, Secrets: newRedactor(c.Config, log),
	}, nil
}

// startKeeper starts a keeper with the settings of this program, and returns when it serves.
func (c *Call) startKeeper(ctx context.Context, name, socket string, progress func(string)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{keeperName, "--box=" + name}
	for _, flag := range slices.Sorted(maps.Keys(c.Given)) {
		args = append(args, "--"+flag+"="+c.Given[flag])
	}
	cmd := exec.Command(self, args...)
	detached(cmd)
	log, err := os.OpenFile(socket+".log", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the keeper has a descriptor of its own
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the process that holds the box: %w", err)
	}
	defer func() { go cmd.Wait() }() // which closes out; the keeper may end before this program
	stop := context.AfterFunc(ctx, func() { out.Close() })
	defer stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("the process that holds the box reports %.100q", lines.Text())
		}
		switch {
		case r.Ready:
			return nil
		case r.Error != "":
			return &sandbox.Error{Code: r.Code, Text: r.Error, Hint: r.Hint}
		case progress != nil:
			progress(r.Progress)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("the process that holds the box ended early; %s may say why", log.Name())
}
