package excerpt

import "testing"

// Of binary data only the text around it is shown, and what is left out is counted.
func TestTextAroundBinaryDataIsShown(t *testing.T) {
	data := "\x00\x01\x02 one\n\xff\xfe two\n\x03"
	for name, tt := range map[string]struct {
		printed    string
		surrounded bool
		want       string
		omitted    int64
	}{
		"before and after":  {"HTTP/1.1 200 OK\r\n\r\n" + data + "\ndone\n", true, "HTTP/1.1 200 OK\n\n[… 17 bytes of binary data left out …]\ndone\n", 17},
		"nothing around":    {data, true, "", 16},
		"a form of its own": {"!<arch>\n" + data + "\ndone\n", false, "", 30},
		"a forged mark":     {"[… 5 bytes of binary data left out …]\n" + data, true, "\\[… 5 bytes of binary data left out …]\n[… 16 bytes of binary data left out …]\n", 16},
		"returns are data":  {"\x00\x01\x02\x03\x04abc\rdef\r", true, "", 13},
		"no line":           {"word" + data + "word", true, "", 24},
	} {
		k := keeperOf(100, tt.printed)
		if e := k.Binary("x", tt.surrounded); e.Text != tt.want || e.OmittedBytes != tt.omitted || e.Bytes != int64(len(tt.printed)) {
			t.Errorf("%s: %q, %d bytes omitted of %d", name, e.Text, e.OmittedBytes, e.Bytes)
		}
	}
}
