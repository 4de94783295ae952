package plugin

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Prefix is what the names of adapters' programs begin with; the engine's name
// follows.
const Prefix = "llmgw-adapter-"

// Program is the executable of one adapter.
type Program struct {
	// Name is the adapter's, which is its engine's.
	Name string
	// Path is the executable, and Args what it is given.
	Path string
	Args []string
	// Checksum is the SHA-256 that the file must have at each start. Nil: any.
	Checksum []byte
	// Builtin: the program is part of the host's own executable, and its file is
	// not looked at.
	Builtin bool
}

// Discover returns the programs of cfg.Dir and those built in, sorted by name. The
// error joins a [*ProgramError] for each that was refused, and for a directory or
// list of checksums that cannot be read. Checksums are compared at the start.
func Discover(cfg Config, builtin []Program) ([]Program, error) {
	found, refused := discover(cfg, builtin)
	errs := make([]error, len(refused))
	for i, e := range refused {
		errs[i] = e
	}
	return found, errors.Join(errs...)
}

func discover(cfg Config, builtin []Program) (found []Program, refused []*ProgramError) {
	found = slices.Clone(builtin)
	files, err := programFiles(cfg.Dir)
	if err != nil {
		refused = append(refused, err)
	}
	sums, err := readChecksums(cfg.ChecksumFile)
	if err != nil && len(files) > 0 {
		refused = append(refused, err)
		files = nil // what they should be is not known
	}
	for _, path := range files {
		p := Program{Name: strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), suffix()), Prefix), Path: path}
		if err := admit(&p, cfg, sums); err != nil {
			refused = append(refused, err)
			continue
		}
		if i := slices.IndexFunc(found, func(f Program) bool { return f.Name == p.Name }); i >= 0 {
			refused = append(refused, &ProgramError{
				Name: p.Name, Path: path, Reason: ErrDuplicate,
				Detail: "an adapter of that name is built in", Advice: "rename the file after an engine of its own, or remove it",
			})
			found = slices.Delete(found, i, i+1)
			continue
		}
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b Program) int { return cmp.Compare(a.Name, b.Name) })
	return found, refused
}

// find returns the program of one adapter. That others were refused is no concern
// of it.
func find(cfg Config, builtin []Program, name string) (Program, error) {
	found, refused := discover(cfg, builtin)
	if i := slices.IndexFunc(found, func(p Program) bool { return p.Name == name }); i >= 0 {
		return found[i], nil
	}
	for _, e := range refused {
		if e.Name == name || e.Name == "" { // without a name it is about all of them
			e.Name = name
			return Program{}, e
		}
	}
	names := make([]string, len(found))
	for i, p := range found {
		names[i] = p.Name
	}
	detail := "there are none at all"
	if len(names) > 0 {
		detail = "there are " + strings.Join(names, ", ")
	}
	advice := "name the directory of adapters in the configuration"
	if cfg.Dir != "" {
		advice = "correct the name, or put " + Prefix + name + " into " + cfg.Dir
	}
	return Program{}, &ProgramError{Name: name, Reason: ErrUnknown, Detail: detail, Advice: advice}
}

// programFiles returns the paths of all files in dir that are named as adapters.
func programFiles(dir string) ([]string, *ProgramError) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &ProgramError{Path: dir, Reason: ErrMissing, Cause: err, Advice: "make the directory of adapters, or leave it out of the configuration"}
	}
	if err := guarded(dir); err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), Prefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// admit looks at one file, and notes in p what it is pinned to.
func admit(p *Program, cfg Config, sums map[string][]byte) *ProgramError {
	if !engines.Name(p.Name).Usable() {
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrUnsafe, Detail: "its name is no engine's",
			Advice: "name it " + Prefix + "NAME, with lower-case letters, digits and dashes, or remove it"}
	}
	if err := inspect(*p); err != nil {
		return err
	}
	if text, ok := cfg.Checksums[p.Name]; ok {
		p.Checksum, _ = hex.DecodeString(text) // Validate refused others
		return nil
	}
	if sums == nil {
		return nil
	}
	p.Checksum = sums[filepath.Base(p.Path)]
	if p.Checksum == nil {
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrChecksum, Detail: "it is not in " + cfg.ChecksumFile,
			Advice: "if you trust the file: sha256sum " + p.Path + " >> " + cfg.ChecksumFile}
	}
	return nil
}

// inspect refuses a file that is no program, or that anybody could have written.
func inspect(p Program) *ProgramError {
	path, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrMissing, Cause: err, Advice: "install the program again"}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrMissing, Cause: err, Advice: "install the program again"}
	case !info.Mode().IsRegular():
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrUnsafe, Detail: "it is not a file", Advice: "remove it, or put the program in its place"}
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrUnsafe, Detail: "it is not executable", Advice: "chmod 755 " + path}
	case writableByAll(info):
		return &ProgramError{Name: p.Name, Path: p.Path, Reason: ErrUnsafe, Detail: "every user of the machine may write to it",
			Advice: "make sure that it is what you installed, then chmod 755 " + path}
	}
	if err := guarded(filepath.Dir(path)); err != nil {
		err.Name, err.Path = p.Name, p.Path
		return err
	}
	return nil
}

// guarded refuses a directory in which anybody may put another file in the place of
// one.
func guarded(dir string) *ProgramError {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return &ProgramError{Path: dir, Reason: ErrMissing, Cause: err, Advice: "make the directory again"}
	case writableByAll(info) && info.Mode()&fs.ModeSticky == 0:
		return &ProgramError{Path: dir, Reason: ErrUnsafe, Detail: "every user of the machine may write to the directory " + dir, Advice: "chmod 755 " + dir}
	}
	return nil
}

func writableByAll(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
}

func suffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// readChecksums reads lines of sha256sum: the sum, two spaces or a space and a star,
// the file's name. Without a path there are no sums, which is not the same as none.
func readChecksums(path string) (map[string][]byte, *ProgramError) {
	if path == "" {
		return nil, nil
	}
	fail := func(err error, advice string) *ProgramError {
		return &ProgramError{Path: path, Reason: ErrChecksum, Detail: "the list of checksums cannot be read", Cause: err, Advice: advice}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fail(err, "make it with sha256sum, or leave it out of the configuration")
	}
	defer func() { _ = f.Close() }()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, fail(err, "make it with sha256sum")
	case writableByAll(info):
		return nil, fail(errors.New("every user of the machine may write to it"), "make sure of what is in it, then chmod 644 "+path)
	}
	sums := make(map[string][]byte)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, name, _ := strings.Cut(line, " ")
		name = filepath.Base(strings.TrimLeft(name, " *"))
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != 32 || name == "." {
			return nil, fail(fmt.Errorf("line %d is %q", n, line), "write lines as sha256sum does")
		}
		if other, ok := sums[name]; ok && string(other) != string(sum) {
			return nil, fail(fmt.Errorf("line %d: %s has another sum above", n, name), "remove the line that is out of date")
		}
		sums[name] = sum
	}
	if err := lines.Err(); err != nil {
		return nil, fail(err, "write lines as sha256sum does")
	}
	return sums, nil
}
