//go:build linux

package process_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// A shell plays the engine here; an adapter's Launch has the same shape.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "shard")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	cfg := process.DefaultConfig()
	cfg.Poll = 5 * time.Millisecond
	runner, err := process.New(cfg, process.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	shard, err := runner.Start(ctx, process.Spec{
		ID: "llama-1.0", Generation: 7, Dir: dir,
		Launch: engines.Launch{
			Engine: engines.Command{Executable: "sh", Args: []string{"-c", "echo Loading weights; echo Listening; exec sleep 600"}},
			Ready:  engines.Readiness{Log: "^Listening$", Timeout: time.Minute},
			Stop:   engines.Stop{Signal: engines.SignalTerm, Grace: 10 * time.Second},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := shard.Wait(ctx, process.StateReady)
	fmt.Println(status.State, err)

	// The launcher ends and another takes its place; the engine does not notice.
	shard.Detach()
	shard, found, err := runner.Adopt(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("found", found)

	err = shard.Stop(ctx)
	fmt.Println(shard.Status().State, err)
	// Output:
	// ready <nil>
	// found running
	// stopped <nil>
}
