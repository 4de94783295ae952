package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/engines"
)

// profileFile is what a file of testdata/profiles or testdata/invalid holds.
type profileFile struct {
	Name            string `yaml:"-"`
	engines.Profile `yaml:",inline"`
	Shard           circumstances `yaml:"shard"`
}

// readProfiles reads the YAML files of a folder, in the order of their names.
// A folder that is not there has none.
func readProfiles(dir string) ([]profileFile, error) {
	var out []profileFile
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f := profileFile{Name: strings.TrimSuffix(filepath.Base(name), ".yaml")}
		dec := yaml.NewDecoder(bytes.NewReader(data))
		dec.KnownFields(true)
		if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// readPages returns the contents of the .txt files of a folder by the names of
// the files without it. A folder that is not there has none.
func readPages(dir string) (map[string]string, error) {
	out := make(map[string]string)
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(filepath.Base(name), ".txt")] = string(data)
	}
	return out, nil
}

// compare holds got against the file, or writes it there when the suite
// updates.
func (s *subject) compare(into *findings, contract, file, got string) {
	if s.update {
		if err := write(file, got); err != nil {
			into.add(contract, err.Error(), "make the folder writable")
		}
		return
	}
	want, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		into.add(contract, file+" is not there", "run the test with -enginetest.update, and read what it wrote")
	case err != nil:
		into.add(contract, err.Error(), "make the file readable")
	case string(want) != got:
		into.add(contract, file+" differs:\n"+difference(string(want), got), "if the difference is meant, run the test with -enginetest.update")
	}
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
