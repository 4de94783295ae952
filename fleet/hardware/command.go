package hardware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// ErrNoCommand is wrapped by a Runner's error for a program that there is not.
var ErrNoCommand = errors.New("hardware: no such command")

// Runner runs a program of a vendor. Run returns what it wrote to its standard
// output, at most a MiB of it, and its exit status; a status other than 0 is
// no error. It ends with ctx, or soon after it; but a program that waits for a
// driver may last, and Run with it. Calls do not overlap.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) (Output, error)
}

// Output is what a program answered.
type Output struct {
	// Stdout is what it wrote, with Stderr behind it where it wrote nothing
	// else.
	Stdout string
	// Status is its exit status; -1: it was killed.
	Status int
}

// maxOutput bounds the output of a program. A hundred cards answer in 20 KiB.
const maxOutput = 1 << 20

// programs runs programs of the machine.
type programs struct{}

// Run starts a program in a process group of its own with nothing but PATH and
// a plain locale in its environment, and kills the group when ctx is done.
func (programs) Run(ctx context.Context, name string, args ...string) (Output, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return Output{}, fmt.Errorf("%w: %s", ErrNoCommand, name)
	}
	return run(ctx, path, args)
}

func run(ctx context.Context, path string, args []string) (Output, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment()
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A child that holds the pipes open does not hold us.
	cmd.WaitDelay = 500 * time.Millisecond
	inGroup(cmd)
	err := cmd.Run()
	out := Output{Stdout: stdout.kept.String(), Status: cmd.ProcessState.ExitCode()}
	if out.Stdout == "" {
		out.Stdout = stderr.kept.String()
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out, fmt.Errorf("run %s: %w", path, context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return out, fmt.Errorf("run %s: %w", path, err)
	}
	return out, nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), maxOutput-b.kept.Len())
	b.kept.Write(p[:keep])
	return len(p), nil
}
