package weights_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/storage/weights"
)

// readFault reads what must fail by that kind.
func readFault(t testing.TB, fsys fs.FS, name string, kind error) *weights.ReadError {
	t.Helper()
	facts, err := weights.Read(fsys, name)
	e, ok := errors.AsType[*weights.ReadError](err)
	if !ok || !errors.Is(err, kind) {
		t.Fatalf("%s: got %v (%+v), want %v", name, err, facts, kind)
	}
	if !strings.Contains(err.Error(), e.Path) {
		t.Errorf("%q does not name %s", err, e.Path)
	}
	return e
}

func TestReadFaults(t *testing.T) {
	good := llama8B.gguf(12).file()
	tensors := safetensors(t, tensor{"a", "F32", []uint64{4}})
	short := func(s sparse) sparse { s.size--; return s }
	for _, test := range []struct {
		name string
		disk disk
		read string
		kind error
		says string
	}{
		{"nothing there", disk{}, "m", weights.ErrNotFound, ""},
		{"a path upwards", disk{}, "../m", weights.ErrNotFound, "relative"},
		{"an absolute path", disk{}, "/m", weights.ErrNotFound, "relative"},
		{"an empty directory", disk{}, ".", weights.ErrEmpty, "0 files"},
		{"a description without weights", disk{"config.json": whole([]byte("{}"))}, ".", weights.ErrEmpty, "1 files"},
		{"a download that is not finished", disk{"m.gguf.part": good}, ".", weights.ErrIncomplete, "m.gguf.part"},
		{"pickles", disk{"pytorch_model.bin": whole(nil)}, ".", weights.ErrFormat, "convert"},
		{"another file", disk{"a.txt": whole([]byte("hello"))}, "a.txt", weights.ErrFormat, "safetensors"},
		{"two models", disk{"a.gguf": good, "b.gguf": good}, ".", weights.ErrAmbiguous, "a.gguf, b.gguf"},
		{"two models of safetensors", disk{"a.safetensors": tensors, "b.safetensors": tensors}, ".", weights.ErrAmbiguous, "a.safetensors"},
		{"half of a set", disk{"a-00001-of-00002.safetensors": tensors}, ".", weights.ErrIncomplete, "a-00002-of-00002"},
		{"GGUF that ends early", disk{"a.gguf": short(good)}, "a.gguf", weights.ErrIncomplete, "fetch it again"},
		{"within its header", disk{"a.gguf": {good.begin, 1000}}, "a.gguf", weights.ErrIncomplete, "1000 bytes"},
		{"of no bytes", disk{"a.gguf": whole(nil)}, "a.gguf", weights.ErrIncomplete, "0 bytes"},
		{"safetensors that end early", disk{"a.safetensors": short(tensors)}, "a.safetensors", weights.ErrIncomplete, "fetch it again"},
		{"within the header", disk{"a.safetensors": {tensors.begin, 20}}, "a.safetensors", weights.ErrIncomplete, "fetch it again"},
		{"of no bytes", disk{"a.safetensors": whole(nil)}, "a.safetensors", weights.ErrIncomplete, "0 bytes"},
		{"by a wrong name", disk{"a.safetensors": good}, "a.safetensors", weights.ErrFormat, ".gguf"},
		{"by the other wrong name", disk{"a.gguf": tensors}, "a.gguf", weights.ErrFormat, "GGUF"},
		{"a broken description", disk{"a.safetensors": tensors, "config.json": whole([]byte("{"))}, "a.safetensors", weights.ErrCorrupt, "config.json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if e := readFault(t, test.disk, test.read, test.kind); !strings.Contains(e.Error(), test.says) {
				t.Errorf("%q does not say %q", e, test.says)
			}
		})
	}
}

// A model's eye and an adapter beside it are no second model.
func TestDirectoryChoice(t *testing.T) {
	good := llama8B.gguf(12).file()
	eye := newGGUF("clip").tensor("v.x.weight", 0, 4, 1).file()
	if f := read(t, disk{"m/a.gguf": good, "m/mmproj-a.gguf": eye, "m/README.md": whole(nil)}, "m"); len(f.Files) != 1 || f.Files[0].Name != "a.gguf" {
		t.Errorf("read %v, want a.gguf", f.Files)
	}
	one, two := safetensors(t, tensor{"lm_head.weight", "F32", []uint64{4}}), safetensors(t, tensor{"a", "F32", []uint64{8}})
	for _, other := range []string{"adapter_model", "consolidated", "model.fp32"} {
		f := read(t, disk{"m/model.safetensors": one, "m/" + other + ".safetensors": two}, "m")
		if f.TensorBytes != 16 {
			t.Errorf("beside %s: read %v, want the model alone", other, f.Files)
		}
	}
	set := read(t, disk{"x-00001-of-00002.safetensors": one, "x-00002-of-00002.safetensors": two, "consolidated.safetensors": one}, ".")
	if set.TensorBytes != 48 || len(set.Files) != 2 {
		t.Errorf("read %v, want the set of two", set.Files)
	}
	if f := read(t, disk{"m/a.gguf": good, "m/model.safetensors": one}, "m"); f.Format != weights.Safetensors {
		t.Errorf("of both formats %s was read, want safetensors", f.Format)
	}
}

// On real filesystems: links as caches have them, and what would block.
func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, s sparse) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, s.begin, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, s.size); err != nil {
			t.Fatal(err)
		}
	}
	write("blobs/123", safetensors(t, tensor{"a", "F32", []uint64{4}}))
	if err := os.MkdirAll(filepath.Join(dir, "snapshots/abc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"model.safetensors": "../../blobs/123", "config.json": "../../blobs/gone"} {
		if err := os.Symlink(target, filepath.Join(dir, "snapshots/abc", name)); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := weights.Read(os.DirFS(dir), "snapshots/abc"); err != nil || f.TensorBytes != 16 {
		t.Errorf("through links: %+v, %v", f, err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := weights.Read(root.FS(), "abc"); err == nil {
		t.Error("links lead out of a root")
	}
	if err := os.Mkdir(filepath.Join(dir, "d.gguf"), 0o755); err != nil {
		t.Fatal(err)
	}
	readFault(t, os.DirFS(dir), "d.gguf", weights.ErrEmpty)
}
