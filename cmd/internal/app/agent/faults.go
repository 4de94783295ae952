package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/fleet/hardware"
)

// faultsInterval is how often it is looked whether cards have shown new faults.
const faultsInterval = 10 * time.Second

// faultBook keeps what cards have shown in the state directory, so that a card that
// was excluded is not used again because the agent was restarted.
type faultBook struct {
	reader *hardware.Reader
	path   string
	log    *slog.Logger
}

func newFaultBook(r *hardware.Reader, stateDir string, log *slog.Logger) *faultBook {
	return &faultBook{reader: r, path: filepath.Join(stateDir, "faults.json"), log: log}
}

// run reads the book, follows the kernel's log, and writes the book when it has
// something new, until ctx is done. Nothing of that stops an agent.
func (b *faultBook) run(ctx context.Context) error {
	b.load()
	saved := b.reader.Faults().Revision()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		// Without it faults that a driver writes there alone are not seen, which the
		// inventory says too.
		if err := b.reader.WatchKernel(ctx); err != nil {
			b.log.Warn("the kernel's log is not read: faults of cards that stand only there are not seen", "err", err)
		}
	}()
	ticker := time.NewTicker(faultsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			<-watched
			b.save(saved)
			return nil
		case <-ticker.C:
			saved = b.save(saved)
		}
	}
}

func (b *faultBook) load() {
	data, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = b.reader.LoadFaults(data)
	}
	if err != nil {
		b.log.Warn("what cards have shown before is not known; cards that were excluded may be used", "file", b.path, "err", err)
	}
}

// save writes the book if it is another one than was saved, and returns which one
// is. What fails is tried again.
func (b *faultBook) save(saved uint64) uint64 {
	now := b.reader.Faults().Revision()
	if now == saved {
		return saved
	}
	data, err := b.reader.SaveFaults()
	if err == nil {
		err = os.WriteFile(b.path+".draft", data, 0o600)
	}
	if err == nil {
		err = os.Rename(b.path+".draft", b.path)
	}
	if err != nil {
		b.log.Warn("what cards have shown was not kept", "err", err)
		return saved
	}
	return now
}
