package hostpath

import (
	"io/fs"
	"syscall"
)

// identify returns the ID of a file. Files have no numeric owners on Windows.
func identify(name string, _ fs.FileInfo) (id ID, uid, gid int, err error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return id, 0, 0, err
	}
	const all = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE
	h, err := syscall.CreateFile(path, 0, all, nil, syscall.OPEN_EXISTING, syscall.FILE_FLAG_BACKUP_SEMANTICS|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return id, 0, 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer syscall.CloseHandle(h)
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(h, &info); err != nil {
		return id, 0, 0, &fs.PathError{Op: "identify", Path: name, Err: err}
	}
	return ID{uint64(info.VolumeSerialNumber), uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)}, 0, 0, nil
}
