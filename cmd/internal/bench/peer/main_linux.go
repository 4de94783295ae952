package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// Main is the main function of a program that uses this package, which starts
// itself in other roles: it plays the role that the command line asks for, or
// calls run with the arguments and a context that SIGINT and SIGTERM end. It
// exits with 1 when run fails, and with 0 when it returns flag.ErrHelp.
func Main(run func(ctx context.Context, args []string) error) {
	os.Exit(exitCode(os.Args[1:], run, os.Stderr))
}

func exitCode(args []string, run func(ctx context.Context, args []string) error, stderr io.Writer) int {
	played, err := RunRole(args)
	if !played {
		// Children get a signal when the thread that started them ends.
		runtime.LockOSThread()
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, args)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
