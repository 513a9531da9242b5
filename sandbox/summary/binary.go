package summary

import (
	"bytes"
	"unicode/utf8"
)

// sniffed is the number of bytes that decide whether output is text.
const sniffed = 8 << 10

// binaryKind returns the kind of binary data, or "" for text: data without NUL and with
// hardly any control bytes or invalid characters.
func binaryKind(p []byte) string {
	if bytes.IndexByte(p, 0) < 0 && strange(p)*50 <= len(p) {
		return ""
	}
	for _, m := range magics {
		if len(p) >= m.at && bytes.HasPrefix(p[m.at:], []byte(m.magic)) {
			return m.kind
		}
	}
	return "unknown type"
}

// strange counts the control bytes that text does not use, and an eighth of the bytes
// that are not valid UTF-8, since the text may have another encoding.
func strange(p []byte) (n int) {
	high := 0
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\b' && r != 0x1b && r != '\f' && r != 0x07 {
			n++
		}
		if r == utf8.RuneError && size == 1 {
			high++
		}
		p = p[size:]
	}
	return n + high/8
}

var magics = []struct {
	at          int
	magic, kind string
}{
	{0, "\x7fELF", "ELF"},
	{0, "\x1f\x8b", "gzip"},
	{0, "PK\x03\x04", "zip"},
	{0, "\x89PNG", "PNG image"},
	{0, "\xff\xd8\xff", "JPEG image"},
	{0, "GIF8", "GIF image"},
	{0, "%PDF", "PDF"},
	{0, "BZh", "bzip2"},
	{0, "\xfd7zXZ", "xz"},
	{0, "\x28\xb5\x2f\xfd", "zstd"},
	{0, "SQLite format 3", "SQLite database"},
	{0, "\xca\xfe\xba\xbe", "Java class or Mach-O"},
	{0, "\x00asm", "WebAssembly"},
	{0, "MZ", "PE"},
	{0, "!<arch>", "ar archive"},
	{0, "RIFF", "RIFF"},
	{4, "ftyp", "MP4"},
	{257, "ustar", "tar"},
}
