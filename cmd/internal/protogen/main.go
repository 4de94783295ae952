// Command protogen makes the Go code of a folder's .proto files, with the stubs of
// Connect or of gRPC:
//
//	go run ./cmd/internal/protogen connect|grpc FOLDER
//
// It compiles them with protocompile, buf's compiler as a library, and hands them
// to protoc-gen-go and to protoc-gen-connect-go or protoc-gen-go-grpc, which are
// tools of this module and so have the versions of the libraries that their code
// needs. So `go generate` needs
// Go and nothing else: no protoc, whose version is the machine's, no download of a
// binary, and not the eight minutes that buf takes to build the first time.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const module = "github.com/llmgw/llmgw"

func main() {
	if len(os.Args) != 3 || stubs(os.Args[1]) == (generator{}) {
		fmt.Fprintln(os.Stderr, "usage: protogen connect|grpc FOLDER")
		os.Exit(2)
	}
	if err := generate(context.Background(), stubs(os.Args[1]), os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generator is a plugin of protoc's, and what it is told.
type generator struct{ tool, parameter string }

// stubs returns what makes the services' code, beside the messages', in one package
// a protocol.
func stubs(rpc string) generator {
	switch rpc {
	case "connect":
		// simple: methods take and return messages.
		return generator{"protoc-gen-connect-go", "module=" + module + ",simple,package_suffix="}
	case "grpc":
		return generator{"protoc-gen-go-grpc", "module=" + module}
	}
	return generator{}
}

func generate(ctx context.Context, services generator, folder string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	req, err := compile(ctx, folder)
	if err != nil {
		return err
	}
	for _, p := range []generator{{"protoc-gen-go", "module=" + module}, services} {
		req.Parameter = new(p.parameter)
		if err := run(ctx, p.tool, req, root); err != nil {
			return fmt.Errorf("%s: %w", p.tool, err)
		}
	}
	return nil
}

// compile reads every .proto file below folder, by which they import one another.
func compile(ctx context.Context, folder string) (*pluginpb.CodeGeneratorRequest, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".proto" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no .proto file", folder)
	}
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	files, err := c.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	req := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) { // what a file imports comes before it
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		req.ProtoFile = append(req.ProtoFile, describe(f))
	}
	for _, f := range files {
		add(f)
	}
	return req, nil
}

// describe returns the descriptor with its comments.
func describe(f protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if r, ok := f.(linker.Result); ok {
		return r.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(f)
}

// run lets a plugin make its files, and writes them below root.
func run(ctx context.Context, tool string, req *pluginpb.CodeGeneratorRequest, root string) error {
	in, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		return err
	}
	if text := resp.GetError(); text != "" {
		return errors.New(text)
	}
	slices.SortFunc(resp.File, func(a, b *pluginpb.CodeGeneratorResponse_File) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, f := range resp.File {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(f.GetName())), []byte(f.GetContent()), 0o644); err != nil { //nolint:gosec // source code
			return err
		}
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	return string(bytes.TrimSpace(out)), err
}
