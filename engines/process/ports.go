package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Holder is who has a port.
type Holder struct {
	Port int
	// PID is 0 where it cannot be seen who it is: a process of another user or
	// container, or one that has not begun to listen.
	PID int
	// Command is the first words of the process's command.
	Command string
	// Problem is why the port cannot be bound.
	Problem string
}

// String returns "port 20000 is held by 4711 (nginx: master)".
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("port %d cannot be bound (%s), and its holder cannot be seen; ask as root: ss -ltnp sport = :%d", h.Port, h.Problem, h.Port)
	}
	return fmt.Sprintf("port %d is held by %d (%s)", h.Port, h.PID, h.Command)
}

// PortsError says that ports cannot be had, and who has them.
type PortsError struct {
	Holders []Holder
	// Problem is what could not be done.
	Problem string
}

// ErrPorts is the class of every [*PortsError].
var ErrPorts = errors.New("process: ports are not free")

// Error names every holder.
func (e *PortsError) Error() string {
	text := "process: " + e.Problem
	for i, h := range e.Holders {
		if i == 8 {
			return text + fmt.Sprintf("; and %d more", len(e.Holders)-i)
		}
		text += "; " + h.String()
	}
	return text
}

// Unwrap returns [ErrPorts].
func (e *PortsError) Unwrap() error { return ErrPorts }

// PortHolder reports whether somebody has the port on any address of this
// machine, and who. It asks the kernel by taking the port for a moment; what
// only waits for its last packets counts as a holder too, since engines differ
// in whether they can bind then.
func PortHolder(port int) (Holder, bool) {
	if err := bind(port, strictly); err != nil {
		return holder(port, err), true
	}
	return Holder{}, false
}

// Listening returns the ports on which somebody on this machine listens, sorted,
// each once: a cheap look, which takes no port and names nobody. Whoever has
// bound a port and does not listen yet is not among them.
func Listening() ([]int, error) { return listeningPorts() }

// bind takes the port for a moment as a server does, with whatever control adds.
func bind(port int, control func(string, string, syscall.RawConn) error) error {
	l, err := (&net.ListenConfig{Control: control}).Listen(context.Background(), "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	return l.Close()
}

// unfree returns those of the ports that a server cannot bind, and why not.
func unfree(ports []int) map[int]error {
	held := map[int]error{}
	for _, port := range ports {
		if err := bind(port, nil); err != nil {
			held[port] = err
		}
	}
	return held
}

// portsError names the holders of ports, nil if there are none.
func portsError(problem string, held map[int]error) error {
	if len(held) == 0 {
		return nil
	}
	e := &PortsError{Problem: problem}
	for _, port := range slices.Sorted(maps.Keys(held)) {
		e.Holders = append(e.Holders, holder(port, held[port]))
	}
	return e
}

func holder(port int, err error) Holder {
	h := holderOf(port)
	h.Port, h.Problem = port, err.Error()
	if cause, ok := errors.AsType[syscall.Errno](err); ok {
		h.Problem = cause.Error()
	}
	return h
}

// PortsConfig says which ports engines get. Start from [DefaultPortsConfig].
type PortsConfig struct {
	// First is the first port of the range. Default 20000; 1 to 65535.
	First int `yaml:"first"`
	// Last is the last one, which is in the range too. Default 20999; first to
	// 65535.
	Last int `yaml:"last"`
	// Rest is how long a freed port is left alone, so that who still knows it
	// does not reach another model. Default 10m; 0 is not at all; not negative.
	Rest time.Duration `yaml:"rest"`
}

// DefaultPortsConfig returns the defaults.
func DefaultPortsConfig() PortsConfig {
	return PortsConfig{First: 20000, Last: 20999, Rest: 10 * time.Minute}
}

// Ports hands out ports of a range. They go round, so that a port comes back
// late. It is no more than a book: it opens nothing and reads no clock. It may
// not be used by several goroutines at once.
type Ports struct {
	cfg   PortsConfig
	next  int
	taken map[int]bool
	freed map[int]time.Time
}

// NewPorts returns a book of which nothing is taken, or what is wrong with cfg.
func NewPorts(cfg PortsConfig) (*Ports, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Ports{cfg: cfg, next: cfg.First, taken: map[int]bool{}, freed: map[int]time.Time{}}, nil
}

func (cfg PortsConfig) validate() error {
	if cfg.First < 1 || cfg.Last > 65535 || cfg.Last < cfg.First {
		return fmt.Errorf("process: ports: %d to %d is no range of ports; want 1 to 65535", cfg.First, cfg.Last)
	}
	if cfg.Rest < 0 {
		return fmt.Errorf("process: ports: rest: %v; want 0 or more", cfg.Rest)
	}
	return nil
}

// Move makes the range another one, or reports what is wrong with it. What is in
// use stays so, and what rests rests, in the range or not.
func (p *Ports) Move(first, last int) error {
	cfg := p.cfg
	cfg.First, cfg.Last = first, last
	if err := cfg.validate(); err != nil {
		return err
	}
	p.cfg = cfg
	if p.next < first || p.next > last {
		p.next = first
	}
	return nil
}

// Take hands out count consecutive ports and returns the first of them. Those
// that held reports, usually [PortHolder], are skipped and returned. Without a
// run of that length the error is a [*PortsError].
func (p *Ports) Take(now time.Time, count int, held func(port int) (Holder, bool)) (first int, skipped []Holder, err error) {
	size := p.cfg.Last - p.cfg.First + 1
	if count < 1 || count > size {
		return 0, nil, fmt.Errorf("process: ports: %d of %d were asked for", count, size)
	}
	asked := map[int]bool{} // whether it is held, for each port that was asked about
	free := func(port int) bool {
		if p.taken[port] || now.Before(p.rested(port)) {
			return false
		}
		strange, ok := asked[port]
		if !ok {
			var h Holder
			if h, strange = held(port); strange {
				skipped = append(skipped, h)
			}
			asked[port] = strange
		}
		return !strange
	}
	at := p.next
	for range size {
		if at+count-1 > p.cfg.Last {
			at = p.cfg.First
		}
		run := 0
		for run < count && free(at+run) {
			run++
		}
		if run == count {
			p.Claim(at, count)
			p.next = at + count
			return at, skipped, nil
		}
		at++
	}
	return 0, skipped, &PortsError{Holders: skipped, Problem: p.full(now, count)}
}

func (p *Ports) rested(port int) time.Time {
	freed, ok := p.freed[port]
	if !ok {
		return time.Time{}
	}
	return freed.Add(p.cfg.Rest)
}

func (p *Ports) full(now time.Time, count int) string {
	resting := 0
	for port := range p.freed {
		if now.Before(p.rested(port)) {
			resting++
		}
	}
	return fmt.Sprintf("no %d consecutive ports from %d to %d: %d are in use, %d rest for up to %v after use",
		count, p.cfg.First, p.cfg.Last, len(p.taken), resting, p.cfg.Rest)
}

// Claim notes that count ports from first are in use, as those of a shard that
// was adopted. Ports outside of the range are noted too.
func (p *Ports) Claim(first, count int) {
	for port := first; port < first+count; port++ {
		p.taken[port] = true
		delete(p.freed, port)
	}
}

// Free notes that count ports from first were freed at now. They rest from then
// on. Ports that were not in use are left as they are.
func (p *Ports) Free(now time.Time, first, count int) {
	for port := first; port < first+count; port++ {
		if p.taken[port] {
			delete(p.taken, port)
			p.freed[port] = now
		}
	}
	maps.DeleteFunc(p.freed, func(port int, _ time.Time) bool { return !now.Before(p.rested(port)) })
}

// Taken returns the ports in use, sorted. The caller owns the slice.
func (p *Ports) Taken() []int { return slices.Sorted(maps.Keys(p.taken)) }
