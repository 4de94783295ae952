package agent

import (
	"context"
	"path/filepath"

	"github.com/llmgw/llmgw/engines/process"
)

// runner starts, takes up and ends the processes of shards: a *process.Runner,
// but in tests.
type runner interface {
	Start(ctx context.Context, spec process.Spec) (attended, error)
	Adopt(ctx context.Context, dir string) (attended, process.Found, error)
	Sweep(ctx context.Context, id string) ([]process.Member, error)
	Marked() ([]process.Marked, error)
}

// attended is a shard that a runner looks after: a *process.Shard.
type attended interface {
	Changed() (process.Status, <-chan struct{})
	Stop(ctx context.Context) error
	Detach()
	Sleeps() bool
	Asleep(ctx context.Context) (bool, error)
	Sleep(ctx context.Context) error
	Wake(ctx context.Context) error
}

// processRunner is a *process.Runner as a runner.
type processRunner struct{ *process.Runner }

func (r processRunner) Start(ctx context.Context, spec process.Spec) (attended, error) {
	s, err := r.Runner.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (r processRunner) Adopt(ctx context.Context, dir string) (attended, process.Found, error) {
	s, found, err := r.Runner.Adopt(ctx, dir)
	if err != nil {
		return nil, found, err
	}
	return s, found, nil
}

func (processRunner) Marked() ([]process.Marked, error) { return process.FindMarked() }

// runDir is the directory of a shard's processes in its own.
func runDir(dir string) string { return filepath.Join(dir, runName) }
