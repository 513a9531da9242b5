package hostpath

import (
	"crypto/rand"
	"fmt"
)

// markPrefix begins the name of a file that says to two kernels that they speak of
// one directory.
const markPrefix = ".warmbox-"

// Mark puts an empty file with a random name into a directory, for
// a reader that sees the directory through another kernel to look for. remove takes
// it away.
func (f *File) Mark() (name string, remove func() error, err error) {
	name = markPrefix + rand.Text()
	remove, err = f.mark(name)
	if err != nil {
		return "", nil, fmt.Errorf("make a file in %s to know it by: %w", f.Path, err)
	}
	return name, remove, nil
}
