package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Bounds of one look at a log file, so that an engine that prints without end
// keeps nobody from doing something else.
const (
	readBytes  = 64 << 10
	mostAtOnce = 16 << 20
	mostTime   = 100 * time.Millisecond
	// lateBytes is how much of what was not looked at yet still is when a file
	// has reached its limit: the rest of it an engine has printed faster than
	// its lines can be read.
	lateBytes = 1 << 20
	// adoptBytes is how much of the log of an engine that was ready is read
	// again, for its last lines.
	adoptBytes = 64 << 10
)

// logFile follows the output of a process in its file. The process holds the
// file open for appending, so that the file can be emptied under it: what it
// prints next is at the beginning.
type logFile struct {
	path   string
	limit  int64
	secret string
	file   *os.File
	at     int64
	split  splitter
	tail   tail
	buf    []byte
	behind bool // the last look ended before the file did
}

// createLog begins a log file; one that is there becomes NAME.1. The process
// gets the file that is returned.
func createLog(root *os.Root, name string) (*os.File, error) {
	if _, err := root.Lstat(name); err == nil {
		if err := root.Rename(name, name+".1"); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// openLog begins to follow a log file, from its first byte. One that somebody
// has removed is empty: what a process that runs prints is lost then.
func (r *Runner) openLog(path, secret string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{
		path: path, limit: r.cfg.LogBytes, secret: secret, file: f,
		split: splitter{most: r.cfg.LineBytes},
		tail:  tail{most: max(r.cfg.TailLines, 200)},
		buf:   make([]byte, readBytes),
	}, nil
}

// skip leaves out all but the last bytes.
func (l *logFile) skip(keep int64) {
	if info, err := l.file.Stat(); err == nil {
		l.jump(info.Size() - keep)
	}
}

// jump goes on behind the first end of a line from there on: the rest of a line
// tells nothing, and could be that of the secret.
func (l *logFile) jump(to int64) {
	if to <= l.at {
		return
	}
	n, _ := l.file.ReadAt(l.buf, to-1) // the end of the line before counts
	l.at = to - 1 + int64(n)
	if end := bytes.IndexByte(l.buf[:n], '\n'); end >= 0 {
		l.at = to + int64(end)
	}
	l.split = splitter{most: l.split.most} // the line that was begun has no end
}

// read calls emit for each line that is new and reports how many bytes were. It
// ends after some time, and says so in behind. A file that has reached its limit
// begins anew, looked at or not.
func (l *logFile) read(emit func(line string)) (int64, error) {
	info, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() < l.at { // somebody else emptied it
		l.at = 0
	}
	n, err := l.copy(nil, mostAtOnce, time.Now().Add(mostTime), emit)
	l.behind = err == nil && l.at < info.Size()
	if err == nil && max(l.at, info.Size()) >= l.limit {
		n += l.hurry(info.Size())
		err = l.rotate(emit)
		l.behind = false
	}
	return n, err
}

// hurry leaves out what there is no time to look at in a file that is about to be
// emptied, and reports how much.
func (l *logFile) hurry(size int64) int64 {
	from := l.at
	if size-l.at > lateBytes {
		l.jump(size - lateBytes)
	}
	return l.at - from
}

// end takes what is left without an end as the last line.
func (l *logFile) end(emit func(line string)) { l.split.end(false, l.taker(emit)) }

func (l *logFile) taker(emit func(string)) func(string, bool) {
	return func(line string, over bool) {
		line = withoutSecret(line, l.secret)
		l.tail.add(line, over)
		emit(line)
	}
}

// withoutSecret returns a line in which the secret is not, nor the beginning of it
// where the line was cut off.
func withoutSecret(line, secret string) string {
	if secret == "" {
		return line
	}
	const shown = 3 // letters of it may be anything
	line = strings.ReplaceAll(line, secret, engines.SecretPlaceholder)
	for n := min(len(secret)-1, len(line)); n > shown; n-- {
		if rest, ok := strings.CutSuffix(line, secret[:n]); ok {
			return rest + engines.SecretPlaceholder
		}
	}
	return line
}

// copy reads up to most bytes, or until it is late, and writes them to w as well
// unless it is nil.
func (l *logFile) copy(w io.Writer, most int64, late time.Time, emit func(string)) (int64, error) {
	var total int64
	for total < most && (total == 0 || time.Now().Before(late)) {
		n, err := l.file.ReadAt(l.buf, l.at)
		l.at += int64(n)
		total += int64(n)
		l.split.write(l.buf[:n], l.taker(emit))
		if w != nil && n > 0 {
			if _, err := w.Write(l.buf[:n]); err != nil {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// rotate keeps the last limit bytes as NAME.1 and empties the file. What is
// printed between the last read and the emptying, some microseconds, is lost.
// Of an engine that prints faster than it can be read more is. On a disk that is
// full the old lines are lost, and the bound holds.
func (l *logFile) rotate(emit func(string)) error {
	err := l.keep(emit)
	if info, statErr := l.file.Stat(); statErr == nil && info.Size() > l.at {
		// Printed meanwhile: what comes last may be what is waited for.
		l.jump(info.Size() - readBytes)
		_, _ = l.copy(nil, 2*readBytes, time.Now().Add(mostTime), emit)
	}
	if emptied := l.file.Truncate(0); emptied != nil {
		return errors.Join(err, emptied)
	}
	l.at = 0
	if err != nil {
		return fmt.Errorf("log file was emptied without a copy: %w", err)
	}
	return nil
}

func (l *logFile) keep(emit func(string)) error {
	draft, err := os.OpenFile(l.path+".1"+draftSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	from := max(0, l.at-l.limit)
	_, err = io.Copy(draft, io.NewSectionReader(l.file, from, l.at-from))
	if err == nil {
		_, err = l.copy(draft, 2*lateBytes, time.Now().Add(mostTime), emit)
	}
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), l.path+".1")
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}

func (l *logFile) close() { _ = l.file.Close() }
