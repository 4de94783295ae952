package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
)

// showProgress keeps a line with the state of a run on w while w is a terminal,
// and does nothing otherwise. The function that it returns takes the line away
// and must be called.
func showProgress(w io.Writer, state func() generate.Progress) (hide func()) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				width, _, err := term.GetSize(int(file.Fd()))
				if err != nil || width <= 0 { // some terminals do not say
					width = 80
				}
				_, _ = fmt.Fprintf(file, "\r%s\x1b[K", benchLine(state(), width-1))
			case <-done:
				_, _ = fmt.Fprint(file, "\r\x1b[K")
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// benchLine is one line of at most width columns: a bar of what is answered,
// as much of the counts as there is room for.
func benchLine(p generate.Progress, width int) string {
	of := ""
	if p.Planned > 0 {
		of = fmt.Sprintf(" of %d", p.Planned)
	}
	text := fmt.Sprintf(" %d%s answered, %d under way, %d failed, %s", p.Sent-p.InFlight, of, p.InFlight, p.Failed, p.Elapsed.Round(time.Second))
	const most, least = 30, 10
	bar := min(most, width-len(text)-2)
	if bar < least {
		return text[1:min(len(text), max(width, 0)+1)]
	}
	full := min(int(p.Share*float64(bar)), bar)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", bar-full) + "]" + text
}
