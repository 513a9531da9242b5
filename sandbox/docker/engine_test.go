package docker

import (
	"strings"
	"testing"
)

func TestSanitize(t *testing.T) {
	if got, want := sanitize("a\x1b[31m\tb\r\nc\u202e\xff"+strings.Repeat("x", 50), 20), "a[31m b  c?xxxxxxxxx…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
