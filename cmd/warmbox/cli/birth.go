package cli

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/keeper"
)

// recordSuffix ends the file of a birth, beside the socket of its box.
const recordSuffix = ".json"

// A birth is the settings that a persistent box was started with, on disk for the next
// keeper. A box that another program started has none.
type birth struct {
	Box      string            `json:"box"`
	Key      []byte            `json:"key,omitempty"` // of the hashes of variables, in this record alone
	Settings map[string]string `json:"settings"`
}

// newBirth records settings with a key of its own, so that the hashes of two records say
// nothing of each other, and no table of hashes has them.
func newBirth(box string, settings map[string]string) birth {
	b := birth{Box: box, Key: make([]byte, sha256.Size)}
	rand.Read(b.Key)
	b.Settings = b.sealed(settings)
	return b
}

// sealed returns settings as the record has them: what stands for the value of a variable is
// hashed with the key.
func (b birth) sealed(settings map[string]string) map[string]string {
	list := maps.Clone(settings)
	for name, value := range settings {
		if strings.HasPrefix(name, keeper.Variable) && len(b.Key) > 0 { // earlier versions had no key
			mac := hmac.New(sha256.New, b.Key)
			mac.Write([]byte(name + "=" + value))
			list[name] = hex.EncodeToString(mac.Sum(nil))
		}
	}
	return list
}

// checkBirth refuses a box that waited with other settings, and records those of a new one.
func (c *Call) checkBirth(file, box string) error {
	ours := c.boxSettings()
	var b birth
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &b) == nil && b.Box == box {
		if what := keeper.Differences(b.Settings, b.sealed(ours)); what != "" {
			return sandbox.Errorf(sandbox.InvalidArgument, "Use the same settings or another name. The box is stopped when it has been idle for keep_for, or by warmbox sweep --all, which removes all your boxes, also those in use.",
				"this box was started with other settings: %s", what)
		}
		if len(b.Key) > 0 {
			return nil
		}
	}
	text, err := json.Marshal(newBirth(box, ours))
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	return err
}

// sweepRecords removes the births of boxes that are gone. One whose keeper runs or starts
// stays until that ends.
func (c *Call) sweepRecords() error {
	dir, err := keepersDir()
	if err != nil {
		return err
	}
	launcher, err := NewDocker(c.Config, c.Log)
	if err != nil {
		return err
	}
	defer launcher.Close()
	files, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	for _, file := range files {
		err = errors.Join(err, sweepRecord(launcher, file))
	}
	return err
}

func sweepRecord(launcher *docker.Launcher, file string) error {
	door, err := keeper.Try(strings.TrimSuffix(file, recordSuffix))
	if errors.Is(err, keeper.ErrServed) {
		return nil
	}
	if err != nil {
		return err
	}
	defer door.Release()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another sweep was faster
	}
	if err != nil {
		return err
	}
	var b birth
	if json.Unmarshal(text, &b) == nil {
		if known, err := launcher.Knows(b.Box); known || err != nil {
			return err
		}
	}
	return os.Remove(file)
}
