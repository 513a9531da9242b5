package policy

import "testing"

func TestImageMatchesPatterns(t *testing.T) {
	list := []string{"warmbox/sandbox:slim", "golang:*", "debian", "ghcr.io/acme/*", "node:2?", "python@sha256:" + digest}
	for ref, want := range map[string]bool{
		"warmbox/sandbox:slim":           true,
		"docker.io/warmbox/sandbox:slim": true,
		"warmbox/sandbox:full":           false,
		"warmbox/sandbox":                false, // is :latest
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
		"python@sha256:" + other:         false,
		"golang:1.26@sha256:" + digest:   false,
		"golang@sha256:" + digest:        false,
		"node:22@sha256:" + digest:       false,
		"debian@sha256:" + digest:        true,
		"debian:12@sha256:" + digest:     true,
		"sha256:" + digest:               false,
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

func TestPinReplacesTagByDigest(t *testing.T) {
	list := []string{"golang:*", "golang:1.26@sha256:" + digest, "ghcr.io/acme/tool:v1@sha256:" + digest, "debian", "[a-", "sha256:" + digest}
	for ref, want := range map[string]string{
		"golang:1.26":                           "golang@sha256:" + digest,
		"docker.io/library/golang:1.26":         "golang@sha256:" + digest,
		"golang:1.25":                           "golang:1.25",
		"golang:1.26@sha256:" + digest:          "golang:1.26@sha256:" + digest,
		"golang:1.26@sha256:" + other:           "",
		"golang@sha256:" + digest:               "",
		"ghcr.io/acme/tool:v1":                  "ghcr.io/acme/tool@sha256:" + digest,
		"ghcr.io/acme/tool:v2":                  "",
		"ghcr.io/acme/tool":                     "",
		"ghcr.io/acme/tool:v1@sha256:" + digest: "ghcr.io/acme/tool:v1@sha256:" + digest,
		"debian:12":                             "debian:12",
		"sha256:" + digest:                      "sha256:" + digest, // an image id of this engine
		"":                                      "",
	} {
		got, ok := Pin(list, ref)
		if ok != (want != "") || ok && got != want {
			t.Errorf("Pin(%q) = %q, %v, want %q", ref, got, ok, want)
		}
	}
}

const other = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func FuzzImage(f *testing.F) {
	f.Add("golang:*", "golang:1.26")
	f.Add("[a-", "x")
	f.Fuzz(func(t *testing.T, entry, ref string) {
		if Image([]string{entry}, ref) && !ValidGlob(entry) {
			t.Errorf("the invalid entry %q allows %q", entry, ref)
		}
		if name, ok := Pin([]string{entry}, ref); ok != (name != "" && (Image([]string{entry}, ref) || name != ref)) {
			t.Errorf("%q pins %[3]q to %[2]q, allowed: %[4]v", entry, name, ref, ok)
		}
		if Image(nil, ref) {
			t.Errorf("an empty list allows %q", ref)
		}
	})
}
