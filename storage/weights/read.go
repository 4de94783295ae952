package weights

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

const (
	suffixGGUF        = ".gguf"
	suffixSafetensors = ".safetensors"
	suffixIndex       = ".safetensors.index.json"
	configFile        = "config.json"
)

// Read returns what the weights at name say of themselves. name is a GGUF file, the
// first of several that make up one model, a safetensors file, an index of such
// files, or the directory that they are in. Symbolic links are followed as far as
// fsys follows them.
//
// An error is a [*ReadError]. A directory without weights is [ErrEmpty], one with
// several models [ErrAmbiguous]; files that are missing or too short, as while they
// are copied, are [ErrIncomplete].
//
// Read reads headers, some megabytes at most, and does not hold on to them. It may
// be called concurrently. It cannot be interrupted: on a network filesystem that
// does not answer it blocks as long as the system does, so who asks for one does so
// in a goroutine that can be given up.
func Read(fsys fs.FS, name string) (Facts, error) {
	if !fs.ValidPath(name) {
		return Facts{}, readError(ErrNotFound, name, "not a path below the root; give a relative one with slashes, without \"..\"")
	}
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return Facts{}, fsError(name, err)
	case info.IsDir():
		return readDirectory(fsys, name)
	case strings.HasSuffix(name, suffixIndex):
		return readIndexed(fsys, path.Dir(name), path.Base(name))
	case strings.HasSuffix(name, suffixSafetensors):
		return readSafetensorsSet(fsys, path.Dir(name), []string{path.Base(name)})
	case strings.HasSuffix(name, suffixGGUF), hasGGUFMagic(fsys, name):
		return readGGUFSet(fsys, path.Dir(name), path.Base(name))
	}
	return Facts{}, readError(ErrFormat, name, "GGUF, safetensors and directories of them are read")
}

// fsError says what a filesystem answered.
func fsError(name string, err error) *ReadError {
	if errors.Is(err, fs.ErrNotExist) {
		return readError(ErrNotFound, name, "")
	}
	return readError(err, name, "")
}

// file is an open file of weights.
type file struct {
	fs.File
	io.ReaderAt
	size int64
}

// open opens a file of weights. The caller closes it.
func open(fsys fs.FS, name string) (file, error) {
	// Looked at before it is opened, which for a pipe would block.
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return file{}, fsError(name, err)
	}
	if !info.Mode().IsRegular() {
		return file{}, readError(ErrFormat, name, "not a regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return file{}, fsError(name, err)
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		_ = f.Close() // only read
		return file{}, readError(errors.ErrUnsupported, name, "the filesystem cannot read from the middle of a file")
	}
	return file{File: f, ReaderAt: at, size: info.Size()}, nil
}

// readSmall returns the content of a file that may be there; nil: it is not.
func readSmall(fsys fs.FS, name string, most int64) ([]byte, error) {
	f, err := open(fsys, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	if f.size > most {
		return nil, readError(ErrCorrupt, name, "it has %d bytes, and %d are the most", f.size, most)
	}
	data := make([]byte, f.size)
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err, name, "")
	}
	return data, nil
}

// hasGGUFMagic reports whether a file begins as GGUF does, whatever its name, as
// Ollama's do.
func hasGGUFMagic(fsys fs.FS, name string) bool {
	f, err := open(fsys, name)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [len(ggufMagic)]byte
	_, err = f.ReadAt(magic[:], 0)
	return err == nil && string(magic[:]) == ggufMagic
}
