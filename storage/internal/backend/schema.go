package backend

import (
	"fmt"
	"io/fs"
	"strings"
)

// Steps are the texts of a folder migrations, which make each version of a schema
// from the one before: 0001_….sql makes version 1 from nothing.
func Steps(files fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(files, "migrations")
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(entries))
	for i, e := range entries {
		if !strings.HasPrefix(e.Name(), fmt.Sprintf("%04d_", i+1)) {
			return nil, fmt.Errorf("migration %s is not number %d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(files, "migrations/"+e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, string(text))
	}
	return out, nil
}
