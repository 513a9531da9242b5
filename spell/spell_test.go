package spell

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"image", "images", "workdir", "timeout"}
	for name, want := range map[string]string{
		"image":     "image",
		"imgae":     "image",
		"Workdir":   "workdir",
		"timeuot":   "timeout",
		"xy":        "",
		"something": "",
		"":          "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := Nearest("image", nil); got != "" {
		t.Errorf("Nearest of no names = %q", got)
	}
}
