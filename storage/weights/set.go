package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxEntries bounds what is looked at of a directory, and the files of a model.
	// The largest known models have some 300.
	maxEntries = 10_000
	// maxMissing bounds the files that an error lists.
	maxMissing = 20
)

// numbered is a name such as "model-00002-of-00004.gguf".
type numbered struct {
	stem, suffix string
	number, of   int
}

// numberedName splits a name. It is not ok if it is no part of a set.
func numberedName(name, suffix string) (numbered, bool) {
	stem, ok := strings.CutSuffix(name, suffix)
	const tail = len("-00001-of-00004")
	if !ok || len(stem) < tail {
		return numbered{}, false
	}
	at := len(stem) - tail
	number, err1 := strconv.Atoi(stem[at+1 : at+6])
	of, err2 := strconv.Atoi(stem[at+10:])
	if stem[at] != '-' || stem[at+6:at+10] != "-of-" || err1 != nil || err2 != nil || number < 1 || number > of || of > maxEntries {
		return numbered{}, false
	}
	return numbered{stem: stem[:at], suffix: suffix, number: number, of: of}, true
}

// set returns the names of all parts.
func (n numbered) set() []string {
	names := make([]string, 0, n.of)
	for i := 1; i <= n.of; i++ {
		names = append(names, fmt.Sprintf("%s-%05d-of-%05d%s", n.stem, i, n.of, n.suffix))
	}
	return names
}

// whole reports, as an error, what files of a set are not there.
func whole(fsys fs.FS, dir string, names []string) error {
	var missing []string
	for _, name := range names {
		if _, err := fs.Stat(fsys, path.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		} else if err != nil {
			return fsError(path.Join(dir, name), err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	shown := missing[:min(len(missing), maxMissing)]
	e := readError(ErrIncomplete, dir, "%d of %d files are missing: %s", len(missing), len(names), strings.Join(shown, ", "))
	if len(shown) < len(missing) {
		e.Detail += ", …"
	}
	e.Missing = shown
	return e
}

// readGGUFSet reads a GGUF file, and the others of its set if it is one of several.
func readGGUFSet(fsys fs.FS, dir, name string) (Facts, error) {
	names := []string{name}
	if n, ok := numberedName(name, suffixGGUF); ok {
		names = n.set()
		if err := whole(fsys, dir, names); err != nil {
			return Facts{}, err
		}
	}
	var (
		keys    map[string]ggufValue
		tensors []ggufTensor
		files   []File
	)
	for _, name := range names {
		f, err := open(fsys, path.Join(dir, name))
		if err != nil {
			return Facts{}, err
		}
		header, err := readGGUF(f, f.size, path.Join(dir, name))
		_ = f.Close() // only read
		if err != nil {
			return Facts{}, err
		}
		files = append(files, File{Name: name, Bytes: f.size})
		if keys == nil { // the first says all about the model
			keys = header.keys
		}
		if tensors = append(tensors, header.tensors...); len(tensors) > maxTensors {
			return Facts{}, readError(ErrCorrupt, path.Join(dir, name), "more than %d tensors in the files up to this", maxTensors)
		}
	}
	first := path.Join(dir, names[0])
	if count := keys["split.count"].ints; len(count) == 1 && count[0] > 1 && int(count[0]) != len(names) {
		return Facts{}, readError(ErrIncomplete, first, "it is one of %d files, which have to be named …-%05d-of-%05d%s", count[0], 1, count[0], suffixGGUF)
	}
	if count := keys["split.tensors.count"].ints; len(count) == 1 && int(count[0]) != len(tensors) {
		return Facts{}, readError(ErrCorrupt, first, "it says that all files have %d tensors, and they have %d", count[0], len(tensors))
	}
	facts, err := ggufFacts(first, keys, tensors)
	facts.Files = files
	return facts, err
}

// readIndexed reads the safetensors files that an index names.
func readIndexed(fsys fs.FS, dir, index string) (Facts, error) {
	name := path.Join(dir, index)
	f, err := open(fsys, name)
	if err != nil {
		return Facts{}, err
	}
	defer f.Close()
	if f.size > maxSafetensorsHeader {
		return Facts{}, readError(ErrCorrupt, name, "it has %d bytes, and %d are the most", f.size, maxSafetensorsHeader)
	}
	files := make(map[string]bool)
	err = eachJSONField(f, func(field string, dec *json.Decoder) error {
		if field != "weight_map" {
			return skipJSON(dec)
		}
		return indexedFiles(dec, files)
	})
	switch {
	case err != nil:
		return Facts{}, readError(ErrCorrupt, name, "%v", err)
	case len(files) == 0:
		return Facts{}, readError(ErrCorrupt, name, "it names no files")
	}
	return readSafetensorsSet(fsys, dir, slices.Sorted(maps.Keys(files)))
}

// indexedFiles collects the files of a weight_map, from tensors to files.
func indexedFiles(dec *json.Decoder, files map[string]bool) error {
	if err := openJSON(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		if _, err := dec.Token(); err != nil { // a tensor
			return err
		}
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		switch {
		case !ok || len(name) > maxText || !fs.ValidPath(name) || strings.Contains(name, "/"):
			return fmt.Errorf("a tensor is in %q, which is no file beside the index", shorten(fmt.Sprint(token)))
		case len(files) == maxEntries && !files[name]:
			return fmt.Errorf("more than %d files", maxEntries)
		}
		files[name] = true
	}
	_, err := dec.Token()
	return err
}

// readSafetensorsSet reads files that make up one model, and the configuration
// beside them.
func readSafetensorsSet(fsys fs.FS, dir string, names []string) (Facts, error) {
	for _, name := range names {
		if n, ok := numberedName(name, suffixSafetensors); ok && len(names) == 1 {
			names = n.set()
		}
	}
	if err := whole(fsys, dir, names); err != nil {
		return Facts{}, err
	}
	config, described, err := readConfig(fsys, path.Join(dir, configFile))
	if err != nil {
		return Facts{}, err
	}
	if config.layers() > maxLayers {
		return Facts{}, readError(ErrCorrupt, path.Join(dir, configFile), "%d layers, and %d are the most", config.layers(), maxLayers)
	}
	var (
		t     tally
		files []File
	)
	for _, name := range names {
		f, err := open(fsys, path.Join(dir, name))
		if err != nil {
			return Facts{}, err
		}
		err = readSafetensors(f, f.size, path.Join(dir, name), &t)
		_ = f.Close() // only read
		if err != nil {
			return Facts{}, err
		}
		files = append(files, File{Name: name, Bytes: f.size})
	}
	facts := t.done(config.layers())
	facts.Format = Safetensors
	facts.Files = files
	if described {
		config.describe(&facts)
	}
	return facts, nil
}
