package cli

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warmbox/warmbox/privatefile"
)

func TestTokens(t *testing.T) {
	const one, other = "0123456789abcdef", "fedcba9876543210=="
	file := filepath.Join(t.TempDir(), "tokens")
	for text, want := range map[string]map[string]string{
		one + "\n":                              {"default": one},
		" " + other:                             {"default": other},
		"# Alice's\n\nalice = " + one + "\n":    {"alice": one},
		"alice=" + one + "\r\nbob\t= " + other:  {"alice": one, "bob": other},
		"alice=" + other:                        {"alice": other},
		"":                                      nil,
		"\n# none\n":                            nil,
		"alice =":                               nil,
		"two words-that-are-long-enough":        nil,
		"short":                                 nil,
		"alice = short":                         nil,
		"local = " + one:                        nil,
		"alice = " + one + "\nLocal = " + other: nil,
		"alice = " + one + "\nalice = " + other: nil,
		one + "\n" + other:                      nil,
		one + "\nalice = " + other:              nil,
		"alice = " + one + " # a comment":       nil,
		"-alice = " + one:                       nil,
		"alice = nötig-0123456789abcdef":        nil,
		"alice = 0123456789\x00abcdef":          nil,
		strings.Repeat("# no end\n", privatefile.MaxSize/9+1): nil,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ring, err := new(Config).readKeyring(file)
		if !maps.Equal(ring.tokens, want) || (err == nil) != (want != nil) {
			t.Errorf("%.60q: %q, %v", text, ring.tokens, err)
		}
		if err != nil && (!strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "0123456789") || strings.Contains(err.Error(), "short")) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	for _, text := range []string{one, "alice = " + one} {
		os.WriteFile(file, []byte(text), 0o600)
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := new(Config).readKeyring(file); err == nil || !strings.Contains(err.Error(), "chmod 600 "+file) {
			t.Errorf("a file that others can read: %v", err)
		}
	}
	for _, name := range []string{file + ".not", filepath.Dir(file), os.DevNull} {
		if _, err := new(Config).readKeyring(name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

// TestMadeToken: servers that start at the same time agree on one.
func TestMadeToken(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	var all sync.Map
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ring, err := new(Config).keyring()
			if err != nil || len(ring.tokens["default"]) < 26 || !ring.bare {
				t.Errorf("%+v, %v", ring, err)
			}
			all.Store(ring.tokens["default"], true)
		})
	}
	wg.Wait()
	n := 0
	all.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d different tokens", n)
	}
	dir := filepath.Join(state, "warmbox")
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "http-token" {
		t.Errorf("the directory has %v, %v", names, err)
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "http-token"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %o", name, info.Mode(), err, want)
		}
	}
}

func TestClientLine(t *testing.T) {
	const url = "http://127.0.0.1:8811/mcp"
	const begin = "claude mcp add --transport http warmbox " + url + ` --header "Authorization: Bearer `
	one := keyring{file: "/state/http-token", tokens: map[string]string{"default": "s3cret"}, bare: true}
	named := keyring{file: "/state/tokens", tokens: map[string]string{"alice": "s3cret"}}
	two := keyring{file: "/state/tokens", tokens: map[string]string{"alice": "s3cret", "bob": "s4cret"}}
	for _, test := range []struct {
		keyring
		show bool
		want string
	}{
		{one, true, `s3cret"`},
		{one, false, `$(cat /state/http-token)"`},
		{named, true, `s3cret"`},
		{named, false, `TOKEN"`},
		{two, true, `TOKEN"`},
	} {
		if got := test.line(url, test.show); got != begin+test.want {
			t.Errorf("got %s, want %s", got, begin+test.want)
		}
	}
}

func TestURL(t *testing.T) {
	for _, test := range []struct {
		listen, cert string
		hosts        []string
		want         string
	}{
		{"127.0.0.1:8811", "", nil, "http://127.0.0.1:8811/mcp"},
		{"[::1]:1", "", nil, "http://[::1]:1/mcp"},
		{"[::]:8811", "", nil, "http://127.0.0.1:8811/mcp"},
		{"0.0.0.0:8811", "cert.pem", []string{"box.example"}, "https://box.example:8811/mcp"},
	} {
		var c Config
		c.HTTP.TLSCert, c.HTTP.AllowHosts = test.cert, test.hosts
		if got := c.url(test.listen); got != test.want {
			t.Errorf("%s: %s, want %s", test.listen, got, test.want)
		}
	}
}
