package policy

import "testing"

func TestImage(t *testing.T) {
	list := []string{"warmbox/sandbox:slim", "golang:*", "debian", "ghcr.io/acme/*", "node:2?", "python@sha256:" + digest}
	for ref, want := range map[string]bool{
		"warmbox/sandbox:slim":           true,
		"docker.io/warmbox/sandbox:slim": true,
		"warmbox/sandbox:full":           false,
		"warmbox/sandbox":                false, // means :latest
		"golang:1.26":                    true,
		"golang":                         true,
		"golang/evil:1":                  false,
		"evil.example/golang:1.26":       false,
		"debian:bookworm":                true,
		"debian":                         true,
		"debian2":                        false,
		"library/debian":                 true,
		"ghcr.io/acme/tool:v1":           true,
		"ghcr.io/acme/tool/deeper:v1":    false,
		"ghcr.io/other/tool":             false,
		"node:22":                        true,
		"node:220":                       false,
		"python@sha256:" + digest:        true,
		"python:3":                       false,
		"":                               false,
		"UPPER":                          false,
		"golang:1.26 --privileged":       false,
		"../golang":                      false,
	} {
		if got := Image(list, ref); got != want {
			t.Errorf("Image(%q) = %v", ref, got)
		}
	}
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func FuzzImage(f *testing.F) {
	f.Add("golang:*", "golang:1.26")
	f.Add("[a-", "x")
	f.Fuzz(func(t *testing.T, entry, ref string) {
		if Image([]string{entry}, ref) && !ValidGlob(entry) {
			t.Errorf("the entry %q cannot be read and allows %q", entry, ref)
		}
		if Image(nil, ref) {
			t.Errorf("an empty list allows %q", ref)
		}
	})
}
