package spell

import "testing"

func TestClosestIsTheFirstWithinTheLimit(t *testing.T) {
	known := []string{"image", "images", "imago"}
	for _, test := range []struct {
		name string
		most int
		want int
	}{{"image", 0, 0}, {"imag", 1, 0}, {"imagesx", 1, 1}, {"imag", 0, -1}, {"zebra", 2, -1}} {
		if got := Closest(test.name, known, test.most); got != test.want {
			t.Errorf("Closest(%q) with at most %d errors = %d, want %d", test.name, test.most, got, test.want)
		}
	}
}

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
