//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package plugin

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A host that is killed outright leaves the directories of its sockets behind, for
// the next one to remove. Such a directory is known by its name, which go-plugin
// gives, its owner, and a file in it that its host holds locked for as long as it
// lives: others who use go-plugin have directories of that name too.
const (
	socketDirPrefix = "plugin-dir"
	holdName        = "llmgw-host"
	draftName       = holdName + ".draft"
)

// hold marks a directory as one of a host that lives, until the file is closed.
func hold(dir string) (*os.File, error) {
	draft := filepath.Join(dir, draftName)
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	// Under its name it is never seen without the lock.
	err = lock(f)
	if err == nil {
		err = os.Rename(draft, filepath.Join(dir, holdName))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(draft))
	}
	return f, nil
}

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// removeRemains removes from the directory for sockets what hosts of this user left
// there that live no more.
func removeRemains(base string, log *slog.Logger) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return // a start says so
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		log.Debug("the directory for sockets cannot be read", "err", err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), socketDirPrefix) || !abandoned(root, e.Name()) {
			continue
		}
		if err := root.RemoveAll(e.Name()); err != nil {
			log.Debug("what a host left behind cannot be removed", "dir", filepath.Join(base, e.Name()), "err", err)
			continue
		}
		log.Info("removed what a host left behind that was killed", "dir", filepath.Join(base, e.Name()))
	}
}

// abandoned reports whether a directory is one of this user's hosts, and of none
// that lives.
func abandoned(root *os.Root, name string) bool {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Stat("."); err != nil || !own(info) {
		return false
	}
	if info, err := dir.Lstat(holdName); err != nil || !info.Mode().IsRegular() || !own(info) {
		return false
	}
	f, err := dir.Open(holdName)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return lock(f) == nil
}

func own(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
