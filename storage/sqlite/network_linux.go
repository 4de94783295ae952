package sqlite

import "syscall"

// networkFS names the network file system that a directory is on, or is empty.
func networkFS(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "" // opening the file says why
	}
	return networkType(uint32(st.Type)) //nolint:gosec // the magic numbers have 32 bits
}

// networkType names a file system by its number in linux/magic.h and statfs(2).
func networkType(magic uint32) string {
	switch magic {
	case 0x6969:
		return "NFS"
	case 0x517b, 0xfe534d42, 0xff534d42:
		return "SMB"
	case 0x00c36400:
		return "Ceph"
	case 0x0bd00bd0:
		return "Lustre"
	case 0x47504653:
		return "GPFS"
	case 0x5346414f, 0x6b414653:
		return "AFS"
	case 0x19830326:
		return "BeeGFS"
	}
	return ""
}
