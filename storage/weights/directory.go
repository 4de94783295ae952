package weights

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// readDirectory reads the one model that is in a directory. Safetensors go before
// GGUF: engines that are given a directory load those.
func readDirectory(fsys fs.FS, dir string) (Facts, error) {
	names, err := list(fsys, dir)
	if err != nil {
		return Facts{}, err
	}
	if index := chooseIndex(withSuffix(names, suffixIndex)); index != "" {
		return readIndexed(fsys, dir, index)
	}
	if files := withSuffix(names, suffixSafetensors); len(files) > 0 {
		files, err := chooseSafetensors(dir, files)
		if err != nil {
			return Facts{}, err
		}
		return readSafetensorsSet(fsys, dir, files)
	}
	if files := withSuffix(names, suffixGGUF); len(files) > 0 {
		file, err := chooseGGUF(dir, files)
		if err != nil {
			return Facts{}, err
		}
		return readGGUFSet(fsys, dir, file)
	}
	for _, name := range names {
		switch path.Ext(name) {
		case ".incomplete", ".part", ".partial", ".aria2", ".tmp":
			return Facts{}, readError(ErrIncomplete, dir, "%s is not finished", name)
		case ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".npz":
			return Facts{}, readError(ErrFormat, dir, "%s is neither safetensors nor GGUF; convert it", name)
		}
	}
	return Facts{}, readError(ErrEmpty, dir, "%d files, none of them .safetensors or .gguf", len(names))
}

// list returns the names of what is in a directory but directories, sorted.
func list(fsys fs.FS, dir string) ([]string, error) {
	f, err := fsys.Open(dir)
	if err != nil {
		return nil, fsError(dir, err)
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, readError(errors.ErrUnsupported, dir, "the filesystem cannot list a directory")
	}
	entries, err := d.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fsError(dir, err)
	case len(entries) > maxEntries:
		return nil, readError(ErrAmbiguous, dir, "it has more than %d entries; name the file", maxEntries)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func withSuffix(names []string, suffix string) []string {
	var found []string
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	return found
}

// chooseIndex returns the index that engines use: the one of the usual name, or the
// only one. "": none.
func chooseIndex(names []string) string {
	const usual = "model" + suffixIndex
	switch {
	case slices.Contains(names, usual):
		return usual
	case len(names) == 1:
		return names[0]
	}
	return ""
}

// chooseSafetensors returns the files of the one model among names, without an
// index. Some models come a second time as one consolidated file, some with
// adapters beside them.
func chooseSafetensors(dir string, names []string) ([]string, error) {
	if slices.Contains(names, "model"+suffixSafetensors) {
		return []string{"model" + suffixSafetensors}, nil
	}
	sets := make(map[numbered]bool)
	var single, second []string
	for _, name := range names {
		n, part := numberedName(name, suffixSafetensors)
		switch {
		case part:
			n.number = 1
			sets[n] = true
		case strings.HasPrefix(name, "consolidated"), strings.HasPrefix(name, "adapter_"):
			second = append(second, name)
		default:
			single = append(single, name)
		}
	}
	switch {
	case len(sets) == 1 && len(single) == 0:
		return slices.Collect(maps.Keys(sets))[0].set(), nil
	case len(sets) == 0 && len(single) == 1:
		return single, nil
	case len(sets) == 0 && len(single) == 0 && len(second) == 1:
		return second, nil
	}
	return nil, ambiguous(dir, names)
}

// chooseGGUF returns the file of the one model among names, or the first of its
// files. What begins with mmproj is the eye of a model, not a model.
func chooseGGUF(dir string, names []string) (string, error) {
	models := make(map[string]bool)
	for _, name := range names {
		if n, ok := numberedName(name, suffixGGUF); ok {
			models[n.set()[0]] = true
		} else if !strings.HasPrefix(name, "mmproj") || len(names) == 1 {
			models[name] = true
		}
	}
	if len(models) != 1 {
		return "", ambiguous(dir, names)
	}
	return slices.Collect(maps.Keys(models))[0], nil
}

func ambiguous(dir string, names []string) error {
	shown := names[:min(len(names), maxMissing)]
	return readError(ErrAmbiguous, dir, "name one: %s", strings.Join(shown, ", "))
}
