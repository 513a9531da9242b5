package hostcode

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"strings"
)

// stamp returns what a change of a file shows in, without reading it.
func stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%v %d %d %s", info.Mode(), info.Size(), info.ModTime().UnixNano(), inode(info))
}

// digest stands for a list, whose length it does not have.
func digest(list []string) string {
	sum := sha256.Sum256([]byte(strings.Join(list, "\x00")))
	return string(sum[:])
}
