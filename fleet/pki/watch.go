package pki

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// watched is a value that is read again when its files change. A nil one has no
// files and no value.
type watched[T any] struct {
	what    string
	files   []string
	parse   func(contents [][]byte) (T, error)
	expires func(T) time.Time
	prefer  func(now time.Time, old, next T) error // why next is not taken

	current atomic.Pointer[T]
	failing atomic.Bool // the last look failed
	told    string      // the last error that was logged; Run's goroutine only

	mu     sync.Mutex
	used   [][]byte // contents behind current; guarded by mu
	failed string   // the error of the last look; guarded by mu
}

// outcome is what a look at the files came to.
type outcome struct {
	changed bool
	err     error
	again   bool // the look before failed in the same way
}

// get returns the value in use; false before there is one.
func (w *watched[T]) get() (T, bool) {
	if w != nil {
		if v := w.current.Load(); v != nil {
			return *v, true
		}
	}
	var none T
	return none, false
}

// look reads the files and takes what they hold if it is new and can be used.
func (w *watched[T]) look() outcome {
	if w == nil {
		return outcome{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next, contents, err := w.read()
	w.failing.Store(err != nil)
	if err != nil {
		before := w.failed
		w.failed = err.Error()
		return outcome{err: err, again: w.failed == before}
	}
	w.failed = ""
	if contents == nil {
		return outcome{}
	}
	w.current.Store(&next)
	w.used = contents
	return outcome{changed: true}
}

// read returns what the files hold; no contents if that is in use already. What
// failed is tried again each time, since time may make it good: the other file
// is replaced, a certificate begins to be valid. It is called with mu held.
func (w *watched[T]) read() (next T, contents [][]byte, err error) {
	for _, name := range w.files {
		data, err := ReadFile(name)
		if err != nil {
			return next, nil, fmt.Errorf("%s: %w", w.what, err)
		}
		contents = append(contents, data)
	}
	if w.used != nil && slices.EqualFunc(contents, w.used, bytes.Equal) {
		return next, nil, nil
	}
	next, err = w.parse(contents)
	if old, ok := w.get(); err == nil && ok {
		err = w.prefer(time.Now(), old, next)
	}
	if err != nil {
		return next, nil, fmt.Errorf("%s in %q: %w", w.what, w.files, err)
	}
	return next, contents, nil
}

// poll looks and logs.
func (w *watched[T]) poll(log *slog.Logger) {
	if w == nil {
		return
	}
	out := w.look()
	if out.err == nil {
		w.told = ""
	}
	switch {
	case out.changed:
		v, _ := w.get()
		log.Info("certificate files were read anew", "what", w.what, "files", w.files, "expires", w.expires(v))
	case out.again && w.told != out.err.Error():
		w.told = out.err.Error()
		log.Error("certificate files cannot be used; what they held before is kept", "err", out.err)
	}
}
