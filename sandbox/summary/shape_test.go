package summary

import "testing"

// Lines that consist of names and numbers only are not all similar, nor are records.
func TestShapesTellNamesApart(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"w1_gain  =  -1.12e+01", "w2_loss  =  3.5", false},
		{"lane7#x  0", "port2#branch  0", false},
		{"w1_gain  =  -1.12e+01", "w1_gain  =  7", true},
		{"src/a.zz:7:2:\tfs.Close()", "src/a.zz:9:2:\tfs.Sync()", false},
		{"src/a.zz:7:2:\tfs.Close()", "src/a.zz:70:2:\tfs.Close()", true},
		{`{"level":"error","msg":"the lamp is lost"}`, `{"level":"error","msg":"the door is open"}`, false},
		{`{"level":"error","msg":"shelf 7 is lost"}`, `{"level":"error","msg":"shelf 8 is lost"}`, true},
		{"/usr/lib/zz/a.zz:12 +0x13a", "/usr/lib/zz/b.zz:7 +0x1", true},
	} {
		if got := shape(c.a) == shape(c.b); got != c.same {
			t.Errorf("%q and %q have the same shape: %v, want %v", c.a, c.b, got, c.same)
		}
	}
}
