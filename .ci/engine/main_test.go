// Package engine_test holds llmgw against a real engine: an engine process, an
// `llmgw server` process in front of it, and a client that compares what both
// say. Run it with .ci/engine/run, which installs the engine, makes a model and
// builds llmgw; the directory is hidden from ./... because of what that takes.
package engine_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// What the tests are run with.
var (
	engineName = flag.String("engine", "llamacpp", "the engine: llamacpp or vllm")
	python     = flag.String("python", "", "Python interpreter that has the engine's package")
	model      = flag.String("model", "", "model file or directory that model.py wrote")
	server     = flag.String("server", "", "the engine's own executable, if it is there by itself: its adapter launches it")
	llmgw      = flag.String("llmgw", "", "the llmgw binary")
)

func TestMain(m *testing.M) {
	flag.Parse()
	for _, f := range []string{"python", "model", "llmgw"} {
		if flag.Lookup(f).Value.String() == "" {
			fmt.Fprintf(os.Stderr, "-%s is needed after -args; .ci/engine/run gives it\n", f)
			os.Exit(1)
		}
	}
	if _, ok := kinds[*engineName]; !ok {
		fmt.Fprintf(os.Stderr, "-engine %q is none of those known here: llamacpp, vllm\n", *engineName)
		os.Exit(1)
	}
	status := m.Run()
	if e, err := shared(); err == nil {
		e.stop()
	}
	os.Exit(status)
}
