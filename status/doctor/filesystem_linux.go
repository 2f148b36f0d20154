package doctor

import "syscall"

// eventless returns the kind of a directory's file system if the kernel does not report the changes that other machines
// make there (on some kinds, not even changes of this machine). It returns "" for other file systems.
func eventless(dir string) string {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return ""
	}
	return eventlessKinds[uint32(s.Type)]
}

// eventlessKinds has the names of such file systems, by their numbers in linux/magic.h.
var eventlessKinds = map[uint32]string{
	0x01021997: "9p, as the drives of Windows are under WSL",
	0x00006969: "NFS",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB",
	0x65735546: "FUSE, as directories that Docker Desktop shares are",
}
