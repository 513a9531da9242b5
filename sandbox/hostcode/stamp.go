package hostcode

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"strings"
)

// stamp returns a text that differs after a change of a file, without reading the file.
func stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%v %d %d %s", info.Mode(), info.Size(), info.ModTime().UnixNano(), inode(info))
}

// digest returns a hash of a list, whose size is fixed.
func digest(list []string) string {
	sum := sha256.Sum256([]byte(strings.Join(list, "\x00")))
	return string(sum[:])
}
