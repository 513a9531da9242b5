package rawlog

// Space is what a file system has. One that makes its files as they are wanted, such
// as btrfs, has as many as there are bytes for, and says 0 of all.
type Space struct {
	Free, All           int64 // in bytes
	FreeFiles, AllFiles int64 // files and directories: inodes
}
