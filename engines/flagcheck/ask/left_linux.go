package ask

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// endMarked ends what carries the variable in the environment that it was started
// with, wherever it went: an executable that makes a daemon of itself leaves its
// group, and holds on to nothing.
func endMarked(variable string) {
	const looks = 20 // one can miss what is made during it
	for range looks {
		found := marked(variable)
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // one that has ended meanwhile is what is wanted
		}
		if len(found) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// marked returns the processes that carry the variable and have not ended.
func marked(variable string) []int {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var found []int
	for _, file := range files {
		env, err := os.ReadFile(file) // that of one that has ended is empty
		if err != nil || !bytes.Contains(env, []byte(variable)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}
