package weights

import (
	"bufio"
	"io"
	"path"
	"strconv"
	"strings"
)

// SharedAt returns which place of which shared filesystem a path is at: the same on
// each node that sees it, wherever it is mounted there. "": the filesystem is a
// local one, or nobody can tell from here. mountinfo is that of the process, as in
// /proc/self/mountinfo; name is absolute and has no symbolic link in it.
//
// A share is known by its type, its source and the place in it. A local disc has a
// source too, and two nodes' discs the same one, so a type that is not known to be
// of a network is taken for local. So is what a host passes on to its machines
// (virtiofs, 9p): which host that is cannot be seen.
func SharedAt(mountinfo io.Reader, name string) string {
	var best mount
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(make([]byte, 0, 4<<10), maxMountLine)
	for lines.Scan() {
		// A later line of the same place covers an earlier one.
		if m, ok := parseMount(lines.Text()); ok && isBelow(name, m.at) && len(m.at) >= len(best.at) {
			best = m
		}
	}
	family := networkFilesystem(best.kind)
	if family == "" || best.source == "" || best.source == "none" {
		return ""
	}
	below := strings.TrimPrefix(strings.TrimPrefix(name, best.at), "/")
	host, export, has := strings.Cut(best.source, ":/")
	if !has {
		return family + " " + best.source + " " + path.Join("/", best.root, below)
	}
	// An export and a folder of it that is mounted by itself are of one share.
	return family + " " + host + ":" + path.Join("/", export, best.root, below)
}

// maxMountLine bounds a line of mountinfo: overlays list their layers.
const maxMountLine = 1 << 20

// mount is a line of mountinfo.
type mount struct{ root, at, kind, source string }

// parseMount reads a line of mountinfo: see proc(5).
func parseMount(line string) (mount, bool) {
	before, after, is := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !is || len(left) < 5 || len(right) < 2 {
		return mount{}, false
	}
	return mount{root: unescape(left[3]), at: unescape(left[4]), kind: right[0], source: unescape(right[1])}, true
}

// unescape reads the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isBelow reports whether a path is a place or below it.
func isBelow(name, at string) bool {
	return name == at || at == "/" || strings.HasPrefix(name, at+"/")
}

// networkFilesystem returns the family of a type of filesystem that several
// machines share. "": it is local, or that is not known.
func networkFilesystem(kind string) string {
	kind = strings.TrimPrefix(kind, "fuse.")
	switch kind {
	case "nfs", "nfs4":
		return "nfs"
	case "cifs", "smb3":
		return "smb"
	case "ceph", "ceph-fuse":
		return "ceph"
	case "lustre", "gpfs", "beegfs", "wekafs", "glusterfs", "juicefs", "cvmfs2":
		return kind
	}
	return ""
}
