package hostpath

import (
	"crypto/rand"
	"fmt"
)

// markPrefix is the start of the name of a file by which two kernels recognize the same
// directory.
const markPrefix = ".warmbox-"

// Mark creates an empty file with a random name in a directory. A reader that sees the
// directory through another kernel looks for that file. remove removes it.
func (f *File) Mark() (name string, remove func() error, err error) {
	name = markPrefix + rand.Text()
	remove, err = f.mark(name)
	if err != nil {
		return "", nil, fmt.Errorf("create a file to recognize %s by: %w", f.Path, err)
	}
	return name, remove, nil
}
