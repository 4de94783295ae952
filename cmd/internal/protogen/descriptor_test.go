package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"

	_ "github.com/llmgw/llmgw/engines/plugin/pluginpb"
	_ "github.com/llmgw/llmgw/fleet/apipb"
	_ "github.com/llmgw/llmgw/fleet/fleetpb"
)

var (
	update   = flag.Bool("update", false, "write the testdata/descriptors.txt of each protocol, if lines were only added")
	breaking = flag.Bool("breaking", false, "with -update: write it although lines are changed or gone, which breaks the other side of a protocol that was released")
)

// protocols are the folders whose code this command makes, each with the .proto
// files below it.
func protocols() map[string]string {
	return map[string]string{
		"fleet/apipb":             "llmgw/api/v1/*.proto",
		"fleet/fleetpb":           "llmgw/fleet/v1/*.proto",
		"engines/plugin/pluginpb": "llmgw/engine/v1/*.proto",
	}
}

// sources returns the names of the .proto files in a folder, by which they import
// one another.
func sources(t *testing.T, folder, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(folder), pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no .proto file: %v", err)
	}
	return names
}

// The code is what its .proto files make: go generate brings it up to date.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	for name, pattern := range protocols() {
		folder := filepath.Join("../../..", name)
		c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}})}
		files, err := c.Compile(t.Context(), sources(t, folder, pattern)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range files {
			got, err := protoregistry.GlobalFiles.FindFileByPath(want.Path())
			if err != nil {
				t.Errorf("%s: %v; run go generate ./%s", want.Path(), err, name)
				continue
			}
			diff := cmp.Diff(protodesc.ToFileDescriptorProto(want), protodesc.ToFileDescriptorProto(got), protocmp.Transform())
			if diff != "" {
				t.Errorf("%s was changed and not generated; run go generate ./%s (-file +code):\n%s", want.Path(), name, diff)
			}
		}
	}
}

// Numbers, names and types stay as they were: the two sides of a protocol, of
// different versions, understand each other. A line may be added; a changed or
// missing one breaks somebody. -update writes the files, and the diff is to be read;
// it drops and changes no line unless -breaking says so.
func TestDescriptorsAreKept(t *testing.T) {
	for name, pattern := range protocols() {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("../../..", name)
			var got strings.Builder
			for _, source := range sources(t, folder, pattern) {
				f, err := protoregistry.GlobalFiles.FindFileByPath(source)
				if err != nil {
					t.Fatal(err)
				}
				describeFile(&got, f)
			}
			golden := filepath.Join(folder, "testdata/descriptors.txt")
			want, err := os.ReadFile(golden)
			if err != nil && !(*update && errors.Is(err, fs.ErrNotExist)) {
				t.Fatal(err)
			}
			if *update {
				if lost := lostLines(string(want), got.String()); len(lost) > 0 && !*breaking {
					t.Fatalf("these lines are changed or gone, which breaks whoever speaks the protocol as it was; -update -breaking writes it all the same:\n%s", strings.Join(lost, "\n"))
				}
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("descriptors (-kept +now):\n%s", diff)
			}
		})
	}
}

// lostLines returns the lines of before that now does not have.
func lostLines(before, now string) []string {
	has := map[string]bool{}
	for line := range strings.Lines(now) {
		has[strings.TrimSuffix(line, "\n")] = true
	}
	var lost []string
	for line := range strings.Lines(before) {
		if line = strings.TrimSuffix(line, "\n"); !has[line] {
			lost = append(lost, line)
		}
	}
	return lost
}

func TestLostLines(t *testing.T) {
	before := "a.B.c = 1 optional string\na.B.d = 2 optional string\n"
	for now, want := range map[string][]string{
		before:                        nil,
		before + "a.B.e = 3 string\n": nil,
		"a.B.d = 2 optional string\na.B.c = 1 optional string\n": nil,
		"a.B.c = 1 optional string\n":                            {"a.B.d = 2 optional string"},
		"a.B.c = 3 optional string\na.B.d = 2 optional string\n": {"a.B.c = 1 optional string"},
	} {
		if diff := cmp.Diff(want, lostLines(before, now)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", now, diff)
		}
	}
}

func describeFile(w *strings.Builder, f protoreflect.FileDescriptor) {
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			fmt.Fprintf(w, "%s(%s) %s", m.FullName(), m.Input().FullName(), m.Output().FullName())
			if m.IsStreamingClient() || m.IsStreamingServer() {
				fmt.Fprintf(w, " streams client=%t server=%t", m.IsStreamingClient(), m.IsStreamingServer())
			}
			fmt.Fprintln(w)
		}
	}
	for i := range f.Enums().Len() {
		values(w, f.Enums().Get(i))
	}
	for i := range f.Messages().Len() {
		fields(w, f.Messages().Get(i))
	}
}

func values(w *strings.Builder, e protoreflect.EnumDescriptor) {
	for i := range e.Values().Len() {
		fmt.Fprintf(w, "%s %s = %d\n", e.FullName(), e.Values().Get(i).Name(), e.Values().Get(i).Number())
	}
}

func fields(w *strings.Builder, m protoreflect.MessageDescriptor) {
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		kind := d.Kind().String()
		switch {
		case d.Enum() != nil:
			kind = string(d.Enum().FullName())
		case d.Message() != nil:
			kind = string(d.Message().FullName())
		}
		presence := ""
		if d.HasPresence() && d.Message() == nil {
			presence = "optional "
		}
		fmt.Fprintf(w, "%s = %d %s%s %s\n", d.FullName(), d.Number(), presence, d.Cardinality(), kind)
	}
	for i := range m.Enums().Len() {
		values(w, m.Enums().Get(i))
	}
	for i := range m.Messages().Len() {
		fields(w, m.Messages().Get(i))
	}
}
