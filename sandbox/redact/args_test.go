package redact_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/redact"
)

// TestSecretArgumentsAreMasked has each name of a secret in each form that gives a program its
// value, as arguments and in the script of a shell.
func TestSecretArgumentsAreMasked(t *testing.T) {
	var r redact.Redactor
	names := []string{"password", "passwd", "passphrase", "pass", "db-pass", "pwd", "token", "auth-token", "api-key", "apikey", "api_key", "access-key",
		"secret", "client-secret", "secret-key", "private-key", "credentials", "Password", "TOKEN"}
	for _, name := range names {
		for _, value := range []string{"hunter2secret", "Zk39fjQ0xPq81LmZ", "abc", "two words", "-x9!dash"} {
			for _, form := range [][]string{{"--" + name, value}, {"-" + name, value}, {"--" + name + "=" + value}} {
				checkMasked(t, &r, append(append([]string{"tool", "-v"}, form...), "file.txt"), value)
			}
		}
		if name != "pass" && name != "db-pass" && name != "pwd" {
			checkMasked(t, &r, []string{"env", "X=1", name, "hunter2secret", "file.txt"}, "hunter2secret")
			checkMasked(t, &r, []string{"env", "X=1", name + "=hunter2 secret", "file.txt"}, "hunter2 secret")
		}
	}
	for _, args := range [][]string{
		{"psql", "app:hunter2secret@db", "file.txt"}, {"psql", "postgres://app:hunter2secret@db/x", "file.txt"},
		{"sshpass", "-p", "hunter2secret", "file.txt"}, {"/usr/bin/sshpass", "-phunter2secret", "file.txt"}, {"mysql", "-phunter2secret", "file.txt"},
		{"docker", "login", "-p", "hunter2secret", "file.txt"}, {"redis-cli", "-a", "hunter2secret", "file.txt"},
		{"curl", "-u", "user:hunter2secret", "file.txt"}, {"curl", "-uuser:hunter2secret", "file.txt"}, {"curl", "--user", "user:hunter2secret", "file.txt"},
		{"http", "--auth=user:hunter2secret", "file.txt"}, {"unzip", "-P", "hunter2secret", "file.txt"}, {"ldapsearch", "-w", "hunter2secret", "file.txt"},
	} {
		checkMasked(t, &r, args, "hunter2secret")
	}
}

func checkMasked(t *testing.T, r *redact.Redactor, args []string, secret string) {
	t.Helper()
	got := r.Args(args)
	if len(got) != len(args) || strings.Contains(strings.Join(got, " "), secret) || got[0] != args[0] || got[len(got)-1] != "file.txt" {
		t.Errorf("Args(%q) = %q", args, got)
	}
	var quoted []string
	for _, arg := range args {
		if strings.Contains(arg, " ") {
			arg = "'" + arg + "'"
		}
		quoted = append(quoted, arg)
	}
	script := "true; " + strings.Join(quoted, " ") + " | cat"
	if got := r.Args([]string{"sh", "-c", script}); strings.Contains(got[2], secret) || !strings.HasSuffix(got[2], "file.txt | cat") {
		t.Errorf("Args of sh -c %q: %q", script, got[2])
	}
	if got := r.Command(script); strings.Contains(got, secret) || r.Command(got) != got {
		t.Errorf("Command(%q) = %q", script, got)
	}
}

func TestOrdinaryArgumentsStay(t *testing.T) {
	var r redact.Redactor
	for _, args := range [][]string{
		{"docker", "run", "-p", "8080:80", "-u", "1000:1000", "alpine:3.20@sha256:0123456789abcdef0123456789abcdef"},
		{"mkdir", "-p", "build/output"}, {"ssh", "-p", "2222", "git@github.com:a/b.git"}, {"npm", "i", "npm:lodash@4.17.21"},
		{"docker", "login", "--password-stdin", "registry.example.com"}, {"tool", "--password-file", "/run/secret1"}, {"psql", "--no-password", "database1"},
		{"ansible", "--private-key", "/home/u/.ssh/id_ed25519"}, {"tool", "--max-tokens", "4096"}, {"tool", "--token", "--verbose"}, {"tool", "--token", "-v"},
		{"npm", "token", "list"}, {"kubectl", "create", "secret", "generic", "name1"}, {"grep", "-rn", "password", "src"}, {"echo", "password:", "wrong"},
		{"go", "test", "-run", "TestToken", "./..."}, {"curl", "-u", "user", "http://h:80/x"}, {"tool", "--token", "$TOKEN"}, {"tool", "--password"}, {"mysql", "-p"},
	} {
		if got := r.Args(args); !slices.Equal(got, args) {
			t.Errorf("Args(%q) = %q", args, got)
		}
		if line := strings.Join(args, " "); r.Command(line) != line {
			t.Errorf("Command(%q) = %q", line, r.Command(line))
		}
	}
	if got := r.Args(nil); len(got) != 0 {
		t.Errorf("Args(nil) = %q", got)
	}
}

func FuzzArgs(f *testing.F) {
	f.Add("tool --password 'a b'\\", "--token=x")
	f.Add("u:p@h", "\"'")
	f.Fuzz(func(t *testing.T, a, b string) {
		var r redact.Redactor
		if got := r.Args([]string{a, b, "--password", b}); len(got) != 4 {
			t.Errorf("%d arguments", len(got))
		}
		r.Command(a)
	})
}
