package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"
)

const (
	// shares is how many segments the bounds of the log are divided among: so
	// much goes at once.
	shares = 8
	// maxSegments bounds the number of files, which otherwise a process that
	// starts again and again would let grow.
	maxSegments = 4096

	lockName = "lock"
)

// directory is where a log writes. It belongs to one goroutine.
type directory struct {
	root     *os.Root
	lock     *os.File
	create   func(name string) (segmentFile, error)
	maxBytes int64
	maxAge   time.Duration
	key      KeyID
	writer   string
	run      uint64

	old     []oldSegment // oldest first
	total   int64        // bytes of all segments
	next    uint64       // sequence number
	active  *activeSegment
	renamed bool // a file was made since the directory was synced
}

// segmentFile is what a log needs of a file.
type segmentFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

type oldSegment struct {
	name  string
	bytes int64
	began time.Time
}

type activeSegment struct {
	file  segmentFile
	name  string
	began time.Time
	bytes int64
	span  span
	dirty bool // written since it was synced
}

// openDirectory makes the directory if need be, takes its lock and finds the
// segments of earlier runs.
func openDirectory(cfg Config, deps Deps) (_ *directory, err error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("record: make the directory: %w", err)
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("record: open the directory: %w", err)
	}
	d := &directory{
		root:     root,
		maxBytes: cfg.MaxBytes,
		maxAge:   cfg.MaxAge,
		key:      deps.Key.ID(),
		writer:   deps.Writer,
		run:      rand.Uint64(),
		next:     1,
	}
	d.create = func(name string) (segmentFile, error) {
		return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	defer func() {
		if err != nil {
			_ = d.release()
		}
	}()
	if d.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("record: lock %s: %w", cfg.Dir, err)
	}
	if err := lockFile(d.lock); err != nil {
		return nil, fmt.Errorf("record: lock %s: %w", cfg.Dir, err)
	}
	if err := d.find(); err != nil {
		return nil, err
	}
	return d, nil
}

// find takes up the segments that are there.
func (d *directory) find() error {
	names, err := segmentNames(d.root)
	if err != nil {
		return err
	}
	for _, name := range names {
		sequence, _ := parseName(name)
		d.next = sequence + 1
		f, err := d.root.Open(name)
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		info, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return fmt.Errorf("record: %w", err)
		}
		began := info.ModTime() // for what has no header that can be read
		b := make([]byte, segmentHeader)
		n, _ := io.ReadFull(f, b)
		_ = f.Close() // only read
		if s, err := parseHeader(b[:n], name, info.Size()); err == nil {
			began = s.Created
		}
		d.old = append(d.old, oldSegment{name, info.Size(), began})
		d.total += info.Size()
	}
	return nil
}

// segmentNames returns the names of a directory's segments, the oldest first.
func segmentNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".") // sorted by name, which is by number
	if err != nil {
		return nil, fmt.Errorf("record: list the segments: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, ok := parseName(e.Name()); ok && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// write adds entries to the log and returns how many bytes of them it has now:
// all, or after an error the whole entries that are in the file, which must not be
// written again.
func (d *directory) write(now time.Time, entries []byte) (int, error) {
	if err := d.prepare(now, int64(len(entries))); err != nil {
		return 0, err
	}
	a := d.active
	s := finish(entries)
	n, err := a.file.Write(entries)
	whole := n
	if err != nil {
		whole = wholeEntries(entries, n)
		s = finish(entries[:whole])
	}
	a.bytes += int64(whole)
	a.dirty = true
	a.span.add(s)
	d.total += int64(whole)
	if err != nil {
		err = errors.Join(fmt.Errorf("record: write %s: %w", a.name, err), d.abandon(n-whole))
	}
	return whole, err
}

// wholeEntries returns the length of the entries that are whole in the first n
// bytes of b.
func wholeEntries(b []byte, n int) int {
	whole := 0
	for whole+entryHeader <= n && whole+entrySize(b[whole:]) <= n {
		whole += entrySize(b[whole:])
	}
	return whole
}

// prepare sees to an active segment that n bytes may be written to without the
// log becoming too large.
func (d *directory) prepare(now time.Time, n int64) error {
	if a := d.active; a != nil && a.bytes+n+sealEntry > d.maxBytes/shares {
		if err := d.seal(); err != nil {
			return err
		}
	}
	need := n + sealEntry
	if d.active == nil {
		need += segmentHeader
	}
	for len(d.old) > 0 && (d.total+need > d.maxBytes || len(d.old) >= maxSegments) {
		if err := d.removeOldest(); err != nil {
			return err
		}
	}
	if d.active != nil {
		return nil
	}
	return d.begin(now)
}

// begin makes a segment and writes its header.
func (d *directory) begin(now time.Time) error {
	s := &Segment{Sequence: d.next, Writer: d.writer, Key: d.key, Created: now, Run: d.run}
	name := segmentName(d.next)
	d.next++
	f, err := d.create(name)
	if err != nil {
		return fmt.Errorf("record: begin a segment: %w", err)
	}
	d.renamed = true
	d.active = &activeSegment{file: f, name: name, began: now, bytes: segmentHeader, dirty: true}
	d.total += segmentHeader
	if _, err := f.Write(appendHeader(nil, s)); err != nil {
		return errors.Join(fmt.Errorf("record: begin %s: %w", name, err), d.abandon(0))
	}
	return nil
}

// seal completes the active segment, if there is one. Whatever the error, there
// is none then.
func (d *directory) seal() error {
	a := d.active
	if a == nil {
		return nil
	}
	if n, err := a.file.Write(appendSeal(nil, a.span)); err != nil {
		return errors.Join(fmt.Errorf("record: seal %s: %w", a.name, err), d.abandon(n))
	}
	a.bytes += sealEntry
	d.total += sealEntry
	a.dirty = true
	return errors.Join(d.sync(), d.leave())
}

// abandon gives the active segment up after an error, at its last whole entry if
// the disk lets the torn bytes after that be cut off, and takes it away if it has
// no entry.
func (d *directory) abandon(torn int) error {
	a := d.active
	if a.span.entries == 0 {
		err := d.root.Remove(a.name)
		if err == nil {
			d.total -= a.bytes
			d.active = nil
			return a.file.Close()
		}
		return errors.Join(err, d.leave())
	}
	err := a.file.Truncate(a.bytes)
	if err != nil { // the reader will find a torn tail
		a.bytes += int64(torn)
		d.total += int64(torn)
	}
	return errors.Join(err, d.leave())
}

// leave closes the active segment's file and keeps it among the old.
func (d *directory) leave() error {
	a := d.active
	d.active = nil
	d.old = append(d.old, oldSegment{a.name, a.bytes, a.began})
	if err := a.file.Close(); err != nil {
		return fmt.Errorf("record: close %s: %w", a.name, err)
	}
	return nil
}

// expire removes what is too old, and completes a segment that would otherwise
// become so before it is full.
func (d *directory) expire(now time.Time) error {
	if a := d.active; a != nil && now.Sub(a.began) >= d.maxAge/shares {
		if err := d.seal(); err != nil {
			return err
		}
	}
	for len(d.old) > 0 && now.Sub(d.old[0].began) >= d.maxAge {
		if err := d.removeOldest(); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) removeOldest() error {
	o := d.old[0]
	if err := d.root.Remove(o.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record: make room: %w", err)
	}
	d.old = d.old[1:]
	d.total -= o.bytes
	return nil
}

// sync makes what was written survive a crash of the machine.
func (d *directory) sync() error {
	var errs []error
	if a := d.active; a != nil && a.dirty {
		if err := a.file.Sync(); err != nil {
			errs = append(errs, fmt.Errorf("record: sync %s: %w", a.name, err))
		}
		// After an error, too: the system has forgotten what it could not
		// write, and would call a second try a success.
		a.dirty = false
	}
	if d.renamed {
		d.renamed = false
		errs = append(errs, syncDirectory(d.root))
	}
	return errors.Join(errs...)
}

// segments returns how many files the log has.
func (d *directory) segments() int {
	if d.active != nil {
		return len(d.old) + 1
	}
	return len(d.old)
}

// close completes the log and gives the directory free.
func (d *directory) close() error { return errors.Join(d.seal(), d.release()) }

func (d *directory) release() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close() // which unlocks it
	}
	return errors.Join(err, d.root.Close())
}
