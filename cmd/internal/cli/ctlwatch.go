package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
	"google.golang.org/protobuf/proto"
)

// watchEvery is how often a table is drawn anew.
const watchEvery = 2 * time.Second

// watchFlags are those of verbs whose answer can be followed.
type watchFlags struct {
	ctlFlags
	Watch bool `help:"Ask again every two seconds until it is interrupted: on a terminal the answer is drawn over the one before, elsewhere they follow one another."`
}

// follow asks and prints the answer, with Watch until a signal comes.
func follow[M proto.Message](ctx context.Context, f *watchFlags, streams Streams, ask func(context.Context) (M, error), text func(io.Writer, M) error) error {
	if f.Watch {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
	}
	return repeat(ctx, f, streams, ask, text)
}

// repeat asks and prints the answer; with Watch again and again until ctx is done.
// What fails then is told, and asked again; the first time it ends the command.
func repeat[M proto.Message](ctx context.Context, f *watchFlags, streams Streams, ask func(context.Context) (M, error), text func(io.Writer, M) error) error {
	for again := false; ; again = true {
		timed, cancel := withTime(ctx)
		resp, err := ask(timed)
		cancel()
		switch {
		case again && ctx.Err() != nil:
			return nil
		case err == nil:
			if f.Watch && !f.JSON && isTerminal(streams.Out) {
				fmt.Fprint(streams.Out, "\x1b[H\x1b[2J") // from the top of an empty screen
			}
			if err := show(&f.ctlFlags, streams.Out, resp, text); err != nil {
				return err
			}
		case !again:
			return f.failed(err)
		default:
			fmt.Fprintf(streams.Err, "llmgw: %v\n", f.failed(err))
		}
		if !f.Watch {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}
