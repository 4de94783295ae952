package weights_test

import "io/fs"

// brokenDisk answers every question with err, but has files that can be opened.
type brokenDisk struct{ err error }

func (d brokenDisk) Open(name string) (fs.File, error) {
	switch name {
	case "a":
		return nil, d.err
	case "config.json":
		return nil, fs.ErrNotExist
	}
	return &brokenFile{sparseFile{sparse: sparse{size: 100}, name: name}, d.err}, nil
}

type brokenFile struct {
	sparseFile
	err error
}

func (f *brokenFile) ReadAt([]byte, int64) (int, error) { return 0, f.err }
