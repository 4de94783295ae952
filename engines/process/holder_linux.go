package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// strictly makes a bind fail for whoever has the port in whatever way.
func strictly(_, _ string, conn syscall.RawConn) error {
	var err error
	failed := conn.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
	})
	if failed != nil {
		return failed
	}
	return err
}

// holderOf returns who has the port, as far as it can be seen: the socket by
// the kernel's tables, the process by its descriptors.
func holderOf(port int) Holder {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, inode := range socketsOn(text, port) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return Holder{}
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return Holder{}
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && sockets[to] {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err == nil {
				return Holder{PID: pid, Command: commandOf(pid)}
			}
		}
	}
	return Holder{}
}

// socketsOn returns the inodes of the sockets of a kernel's table that have
// the port as their own.
func socketsOn(table []byte, port int) []string {
	const local, inode = 1, 9
	want := ":" + fmt.Sprintf("%04X", port)
	var found []string
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > inode && strings.HasSuffix(fields[local], want) && fields[inode] != "0" {
			found = append(found, fields[inode])
		}
	}
	return found
}

// listening returns the ports of the sockets of a kernel's table that listen.
func listening(table []byte) []int {
	const local, state, listens = 1, 3, "0A"
	var ports []int
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= state || fields[state] != listens {
			continue
		}
		_, digits, _ := strings.Cut(fields[local], ":")
		if port, err := strconv.ParseUint(digits, 16, 16); err == nil {
			ports = append(ports, int(port))
		}
	}
	return ports
}

func listeningPorts() ([]int, error) {
	var ports []int
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // without IPv6 there is no tcp6
			return nil, fmt.Errorf("process: %w", err)
		}
		ports = append(ports, listening(table)...)
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}
