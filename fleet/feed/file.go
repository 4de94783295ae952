package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// ErrCopy is wrapped by errors of a copy on disk that cannot be used.
var ErrCopy = errors.New("feed: the copy cannot be used")

// A copy is a line, copyMark with the format's version, the length of what follows
// and its SHA-256 in hexadecimal; and a FeedCopy.
const (
	copyMark     = "llmgw-feed"
	copyVersion  = 1
	maxCopyBytes = maxFrameBytes
	maxMarkBytes = 128
)

// saved is what a copy says.
type saved struct {
	content content
	version Version
	heard   uint64
	at      time.Time
}

// encodeCopy writes what a router knows as a file's content.
func encodeCopy(s *State, heard uint64, at time.Time) ([]byte, error) {
	body, err := proto.Marshal(&apipb.FeedCopy{Version: s.Version.wire(), Snapshot: snapshotOf(s), HeardTerm: heard, At: timestamppb.New(at)})
	if err != nil {
		return nil, err
	}
	if len(body) > maxCopyBytes {
		return nil, fmt.Errorf("it would have %d bytes; want at most %d", len(body), maxCopyBytes)
	}
	sum := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "%s %d %d %s\n", copyMark, copyVersion, len(body), hex.EncodeToString(sum[:])), body...), nil
}

// decodeCopy reads what encodeCopy wrote, whole and unharmed. The error wraps
// ErrCopy.
func decodeCopy(data []byte) (saved, error) {
	bad := func(format string, args ...any) (saved, error) {
		return saved{}, fmt.Errorf("%w: %w", ErrCopy, fmt.Errorf(format, args...))
	}
	end := bytes.IndexByte(data[:min(len(data), maxMarkBytes)], '\n')
	if end < 0 {
		return bad("its first line is missing or not its own")
	}
	line, body := data[:end], data[end+1:]
	fields := bytes.Fields(line)
	if len(fields) < 2 || string(fields[0]) != copyMark {
		return bad("its first line is not its own; is the file another one's?")
	}
	if version, err := strconv.Atoi(string(fields[1])); err != nil || version != copyVersion || len(fields) != 4 {
		return bad("it has format %.20s, and this router knows %d: a newer one wrote it", fields[1], copyVersion)
	}
	if length, err := strconv.Atoi(string(fields[2])); err != nil || length != len(body) {
		return bad("it has %d bytes after its first line, not %.20s: it was cut off", len(body), fields[2])
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(fields[3]) {
		return bad("its checksum is another: it was changed")
	}
	var w apipb.FeedCopy
	if err := proto.Unmarshal(body, &w); err != nil {
		return bad("%w", err)
	}
	s := saved{heard: w.GetHeardTerm(), at: w.GetAt().AsTime()}
	var err error
	if s.version, err = versionFromWire(w.GetVersion()); err != nil {
		return bad("%w", err)
	}
	if s.heard < s.version.Term || s.heard > maxTerm {
		return bad("it has heard of term %d, and is of %d", s.heard, s.version.Term)
	}
	if s.content, err = contentFromWire(w.GetSnapshot(), s.at); err != nil {
		return bad("%w", err)
	}
	s.content.statuses = nil // how models stood then says nothing of now
	return s, nil
}

// readCopy reads a copy. Without one the error is fs.ErrNotExist.
func readCopy(path string) (saved, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return saved{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	const most = maxMarkBytes + maxCopyBytes
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return saved{}, err
	case len(data) > most:
		return saved{}, fmt.Errorf("%w: it has more than %d bytes", ErrCopy, most)
	}
	return decodeCopy(data)
}

// writeCopy puts a copy in its place, whole or not at all, and returns when it is
// on the disk. It is readable by its owner alone, whoever made the file before.
func writeCopy(path string, data []byte) error {
	draft := path + ".draft"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	// It is in its place; this has its name outlast a power cut, where it can.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}
