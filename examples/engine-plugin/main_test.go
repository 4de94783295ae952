package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/plugin"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, adapter{}) }

// As llmgw runs it: the program that is installed, over the protocol.
func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), plugin.Prefix+"lmdeploy")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	enginetest.RunPlugin(t, path)
}

// A whole adapter is an afternoon's work.
func TestIsShort(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte("\n")); n >= 150 {
		t.Errorf("main.go has %d lines; want fewer than 150", n)
	}
}
