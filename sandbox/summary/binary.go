package summary

import (
	"bytes"
	"unicode/utf8"
)

// sniffed is the number of bytes that decide whether output is text.
const sniffed = 8 << 10

// fewBytes is how many bytes text may have that text does not use, however short it is.
const fewBytes = 4

// UnknownBinary is the kind of binary data that begins as no known one does.
const UnknownBinary = "unknown type"

// BinaryKind returns the kind of binary data by its beginning, or "" for text. Text may have a
// few bytes that text does not use, NUL between its words, and another encoding than UTF-8.
func BinaryKind(p []byte) string { return binaryKind(p[:min(len(p), sniffed)]) }

func binaryKind(p []byte) string {
	if isASCII(p) {
		return ""
	}
	n, any := strange(p)
	if !any {
		return ""
	}
	for _, m := range magics {
		if len(p) >= m.at && bytes.HasPrefix(p[m.at:], []byte(m.magic)) {
			return m.kind
		}
	}
	if n <= fewBytes || n*50 <= len(p) {
		return ""
	}
	return UnknownBinary
}

// isASCII reports whether p has only printable characters, tabs and line ends. Nearly all
// output has.
func isASCII(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// strange counts the control bytes that text does not use, and an eighth of those that it may:
// single NULs, which separate names, and bytes that are not valid UTF-8, since the text may
// have another encoding. any reports whether there is one of either.
func strange(p []byte) (n int, any bool) {
	eighths := 0
	var last rune = -1
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		switch {
		case r == 0 && last != 0 && !bytes.HasPrefix(p[1:], nul), r == utf8.RuneError && size == 1:
			eighths++
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\b' && r != 0x1b && r != '\f' && r != 0x07:
			n++
		}
		last = r
		p = p[size:]
	}
	return n + eighths/8, n+eighths > 0
}

var nul = []byte{0}

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
