package agent

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// portBook is the book of the node's ports, with who of its shards has which. It
// may be used by several goroutines.
type portBook struct {
	held func(port int) (process.Holder, bool)
	log  *slog.Logger

	mu     sync.Mutex
	cfg    process.PortsConfig    // guarded by mu
	ports  *process.Ports         // guarded by mu
	owners map[int]owner          // guarded by mu
	warned map[int]process.Holder // guarded by mu; strangers that the log names
}

func newPortBook(cfg process.PortsConfig, held func(int) (process.Holder, bool), log *slog.Logger) (*portBook, error) {
	ports, err := process.NewPorts(cfg)
	if err != nil {
		return nil, err
	}
	return &portBook{
		cfg: cfg, held: held, log: log, ports: ports,
		owners: make(map[int]owner), warned: make(map[int]process.Holder),
	}, nil
}

// span returns the first and the last port of the range.
func (b *portBook) span() (first, last int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.First, b.cfg.Last
}

// move makes the range another one, for what is taken from now on. It reports
// whether it is another one.
func (b *portBook) move(to process.PortsConfig) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if to.First == b.cfg.First && to.Last == b.cfg.Last || b.ports.Move(to.First, to.Last) != nil {
		return false
	}
	b.cfg.First, b.cfg.Last = to.First, to.Last
	return true
}

// owner is a generation of a shard.
type owner struct {
	id         engines.ShardID
	generation uint64
}

// span is a run of ports.
type span struct {
	First int `json:"first"`
	Count int `json:"count"`
}

// each calls f for every port of the spans.
func each(spans map[string]span, f func(port int)) {
	for _, s := range spans {
		for port := s.First; port < s.First+s.Count; port++ {
			f(port)
		}
	}
}

// take sets ports aside for a shard: those that are pinned, or free ones of the
// range. Without all of them it takes none, and the error says who has them; it
// is a *pinnedError where a pinned one cannot be had.
func (b *portBook) take(by owner, needs []engines.PortNeed, pinned map[string]int) (map[string]span, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pinned != nil {
		return b.pin(by, needs, pinned)
	}
	taken := make(map[string]span, len(needs))
	for _, need := range needs {
		first, skipped, err := b.ports.Take(time.Now(), need.Count, b.held)
		b.warn(skipped)
		if err != nil {
			b.giveBack(by, taken, true)
			return nil, fmt.Errorf("ports for %s: %w", need.Name, err)
		}
		taken[need.Name] = span{First: first, Count: need.Count}
		b.own(by, taken[need.Name])
	}
	return taken, nil
}

// pinnedError says that ports that an order names cannot be had.
type pinnedError struct{ problems []string }

func (e *pinnedError) Error() string {
	return "the ports that the order names cannot be had: " + strings.Join(e.problems, ", ")
}

func (b *portBook) pin(by owner, needs []engines.PortNeed, pinned map[string]int) (map[string]span, error) {
	var problems []string
	taken := make(map[string]span, len(needs))
	used := make(map[int]string)
	for _, need := range needs {
		first, ok := pinned[need.Name]
		if !ok || first < 1 || first+need.Count-1 > 65535 {
			problems = append(problems, fmt.Sprintf("%s needs %d from a port between 1 and 65535, and has %d", need.Name, need.Count, first))
			continue
		}
		taken[need.Name] = span{First: first, Count: need.Count}
		for port := first; port < first+need.Count; port++ {
			if other, twice := used[port]; twice {
				problems = append(problems, fmt.Sprintf("%d is for %s and for %s", port, other, need.Name))
			}
			used[port] = need.Name
			has, owned := b.owners[port]
			if owned && has.id != by.id {
				problems = append(problems, fmt.Sprintf("%d belongs to shard %s", port, has.id))
			} else if !owned {
				if h, held := b.held(port); held && !bindable(port) {
					problems = append(problems, h.String())
				}
			}
		}
	}
	if len(problems) > 0 {
		return nil, &pinnedError{problems}
	}
	// What the shard's last generation has is its own until that has ended.
	each(taken, func(port int) {
		if _, owned := b.owners[port]; !owned {
			b.ports.Claim(port, 1)
			b.owners[port] = by
		}
	})
	return taken, nil
}

// bindable reports whether a server can take the port now. One that only waits for
// the last packets of a connection can be taken, and is, where an order names it.
func bindable(port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port)) //nolint:noctx // it does not wait
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// claim notes what a shard has that was adopted, or is being started.
func (b *portBook) claim(by owner, spans map[string]span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range spans {
		b.ports.Claim(s.First, s.Count)
		b.own(by, s)
	}
}

// free gives ports back; they rest.
func (b *portBook) free(by owner, spans map[string]span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(by, spans, false)
}

// rest notes which ports a shard had that ended at a time, before this run of the
// agent perhaps: the remainder of their rest is theirs.
func (b *portBook) rest(spans map[string]span, ended time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	each(spans, func(port int) {
		if _, owned := b.owners[port]; !owned {
			b.ports.Claim(port, 1)
			b.ports.Free(ended, port, 1)
		}
	})
}

// giveUp gives back ports that were set aside and never used; they need no rest.
func (b *portBook) giveUp(by owner, spans map[string]span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(by, spans, true)
}

// giveBack returns ports that are the owner's. Those that were never used need no
// rest.
func (b *portBook) giveBack(by owner, spans map[string]span, unused bool) {
	now := time.Now()
	if unused {
		now = now.Add(-b.cfg.Rest)
	}
	each(spans, func(port int) {
		if b.owners[port] == by {
			delete(b.owners, port)
			b.ports.Free(now, port, 1)
		}
	})
}

func (b *portBook) own(by owner, s span) {
	for port := s.First; port < s.First+s.Count; port++ {
		b.owners[port] = by
	}
}

// warn names strangers in the range, each once as long as it is the same.
func (b *portBook) warn(skipped []process.Holder) {
	for _, h := range skipped {
		// Of what only waits for its last packets there is nobody to name.
		if h.PID > 0 && b.warned[h.Port] != h {
			b.warned[h.Port] = h
			b.log.Warn("a port of the range is somebody else's and is skipped", "port", h.Port, "pid", h.PID, "command", h.Command, "problem", h.Problem)
		}
	}
}

// strangers returns who listens on ports of the range that no shard of ours has,
// by port. Listening reports the ports of the machine on which somebody does.
func (b *portBook) strangers(listening func() []int) []process.Holder {
	b.mu.Lock()
	var ports []int
	for _, port := range listening() {
		if _, ours := b.owners[port]; !ours && port >= b.cfg.First && port <= b.cfg.Last {
			ports = append(ports, port)
		}
	}
	b.mu.Unlock()
	slices.Sort(ports)
	var out []process.Holder
	for _, port := range slices.Compact(ports) {
		if h, held := b.held(port); held {
			out = append(out, h)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out = slices.DeleteFunc(out, func(h process.Holder) bool { _, ours := b.owners[h.Port]; return ours })
	b.warn(out)
	return out
}

// firsts returns the first port of each need.
func firsts(spans map[string]span) map[string]int {
	if len(spans) == 0 {
		return nil
	}
	out := make(map[string]int, len(spans))
	for need, s := range spans {
		out[need] = s.First
	}
	return out
}

// all returns every port of the spans, sorted.
func all(spans map[string]span) []int {
	var out []int
	each(spans, func(port int) { out = append(out, port) })
	slices.SortFunc(out, cmp.Compare[int])
	return out
}
