package docker

import (
	"testing"
)

func TestProbe(t *testing.T) {
	l := newLauncher(t, Config{})
	got, err := l.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", got)
	if got.Endpoint == "" || got.Version == "" || got.OS != "linux" || got.CPUs < 1 || got.Memory < 1 || !got.HasImage || got.Transport == "" {
		t.Errorf("something is missing: %+v", got)
	}
}

func TestRuncWarning(t *testing.T) {
	for version, bad := range map[string]bool{
		"1.1.5+ds1": true, "1.2.7": true, "1.2.8": false, "1.3.0": true, "1.3.2": true, "1.3.3": false, "v1.4.0": false,
		"1.3.0-rc.1": true, "crun 1.8": false, "": false, "1.2": false,
	} {
		if got := runcWarning(version) != ""; got != bad {
			t.Errorf("%q: bad is %v, want %v", version, got, bad)
		}
	}
}
