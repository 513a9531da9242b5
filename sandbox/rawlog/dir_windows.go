package rawlog

import "io/fs"

// noFollow is not needed: a file made anew never follows a link here.
const noFollow = 0

// exposed has nothing to say: the mode does not tell who may write.
func exposed(fs.FileInfo) bool { return false }
