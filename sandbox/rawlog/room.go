package rawlog

// Space is the capacity of a file system. A file system without a fixed number of
// inodes, such as btrfs, reports 0 for all and free files.
type Space struct {
	Free, All           int64 // in bytes
	FreeFiles, AllFiles int64 // files and directories: inodes
}
