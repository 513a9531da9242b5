package rawlog

import "io/fs"

// noFollow is not needed: creating a file never follows a link on Windows.
const noFollow = 0

// exposed returns false: on Windows the mode does not tell who may write.
func exposed(fs.FileInfo) bool { return false }
