package agent_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// plane is a control plane that does as the test says and remembers what it was
// told.
type plane struct {
	url string

	mu        sync.Mutex
	cluster   string
	term      uint64
	heartbeat time.Duration
	refuse    error                  // what every stream is answered; nil: welcome
	deaf      bool                   // heartbeats are not answered
	also      func(*fleetpb.Welcome) // what a welcome says beyond the least; nil: nothing
	streams   int
	current   *connect.BidiStream[fleetpb.ConnectRequest, fleetpb.ConnectResponse]
	cut       context.CancelFunc // ends the current stream
	hellos    []*fleetpb.Hello
	beats     []*fleetpb.Heartbeat
	answers   []*fleetpb.Answer
	statuses  map[engines.ShardID][]engines.ShardStatus
	inventory []*fleetpb.Inventory
	moves     []*fleetpb.Reach
	goodbyes  []string
	commands  uint64
	news      chan struct{} // closed at the next change
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{
		cluster: "test", term: 1, heartbeat: 200 * time.Millisecond,
		statuses: make(map[engines.ShardID][]engines.ShardStatus), news: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.Handle(fleetpb.NewAgentServiceHandler(p))
	s := httptest.NewUnstartedServer(mux)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.Protocols.SetHTTP1(true)
	s.Start()
	t.Cleanup(func() {
		p.end()
		s.Close()
	})
	p.url = s.URL
	return p
}

func (p *plane) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.news)
	p.news = make(chan struct{})
}

// end ends the current stream.
func (p *plane) end() {
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	if cut != nil {
		cut()
	}
}

// Connect is a stream.
func (p *plane) Connect(ctx context.Context, stream *connect.BidiStream[fleetpb.ConnectRequest, fleetpb.ConnectResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("no Hello"))
	}
	var refuse error
	p.change(func() {
		p.hellos = append(p.hellos, first.GetHello())
		p.streams++
		if refuse = p.refuse; refuse != nil {
			return
		}
		p.current, p.cut = stream, cancel
		welcome := &fleetpb.Welcome{Protocol: 1, Cluster: p.cluster, Term: p.term, Heartbeat: durationpb.New(p.heartbeat)}
		if p.also != nil {
			p.also(welcome)
		}
		_ = stream.Send(&fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Welcome{Welcome: welcome}})
	})
	if refuse != nil {
		return refuse
	}
	ended := make(chan error, 1)
	go func() {
		for {
			m, err := stream.Receive()
			if err != nil {
				ended <- err
				return
			}
			p.received(stream, m)
		}
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	p.change(func() {
		if p.current == stream {
			p.current = nil
		}
	})
	if errors.Is(err, io.EOF) || err == nil {
		return nil
	}
	return err
}

func (p *plane) received(stream *connect.BidiStream[fleetpb.ConnectRequest, fleetpb.ConnectResponse], m *fleetpb.ConnectRequest) {
	p.change(func() {
		switch m := m.GetMessage().(type) {
		case *fleetpb.ConnectRequest_Heartbeat:
			p.beats = append(p.beats, m.Heartbeat)
			if !p.deaf && p.current == stream { // whose handler has not returned
				_ = stream.Send(&fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Beat{Beat: &fleetpb.Beat{Sequence: m.Heartbeat.GetSequence()}}})
			}
		case *fleetpb.ConnectRequest_Status:
			if st, err := convert.StatusFromWire(m.Status); err == nil {
				p.statuses[st.ID] = append(p.statuses[st.ID], st)
			}
		case *fleetpb.ConnectRequest_Answer:
			p.answers = append(p.answers, m.Answer)
		case *fleetpb.ConnectRequest_Inventory:
			p.inventory = append(p.inventory, m.Inventory)
		case *fleetpb.ConnectRequest_Reach:
			p.moves = append(p.moves, m.Reach)
		case *fleetpb.ConnectRequest_Goodbye:
			p.goodbyes = append(p.goodbyes, m.Goodbye.GetReason())
		}
	})
}

// until waits for a condition that is asked under the lock.
func (p *plane) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		ok, news := done(), p.news
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-deadline:
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Fatalf("%s: did not happen; %d streams, answers %v, statuses %+v", what, p.streams, p.answers, p.statuses)
		}
	}
}

// hello returns a Hello, from the end where i is below 0.
func (p *plane) hello(i int) *fleetpb.Hello {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < 0 {
		i += len(p.hellos)
	}
	return p.hellos[i]
}

// told returns the heartbeats so far.
func (p *plane) told() []*fleetpb.Heartbeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.beats)
}

// connected waits until a node has a stream.
func (p *plane) connected(t *testing.T) {
	t.Helper()
	p.until(t, "a stream", func() bool { return p.current != nil })
}

// order sends a command and returns its answer.
func (p *plane) order(t *testing.T, c *fleetpb.Command) *fleetpb.Answer {
	t.Helper()
	var answer *fleetpb.Answer
	for answer == nil { // a stream that ends takes answers with it
		sent := p.send(t, c)
		p.until(t, "an answer", func() bool {
			for _, a := range p.answers {
				if a.GetCommand() == c.GetId() {
					answer = a
				}
			}
			return answer != nil || p.streams != sent
		})
	}
	return answer
}

// send sends a command over the current stream, and returns how many there were.
func (p *plane) send(t *testing.T, c *fleetpb.Command) (streams int) {
	t.Helper()
	p.connected(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil {
		return p.streams - 1 // it has ended just now
	}
	if c.Id == 0 {
		p.commands++
		c.Id = p.commands
	}
	if c.Cluster == "" {
		c.Cluster = p.cluster
	}
	if c.Term == 0 {
		c.Term = p.term
	}
	// What goes wrong with it ends the stream.
	_ = p.current.Send(&fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Command{Command: c}})
	return p.streams
}

func start(spec engines.ShardSpec) *fleetpb.Command {
	return &fleetpb.Command{Order: &fleetpb.Command_Start{Start: convert.SpecToWire(spec)}}
}

func stop(id engines.ShardID, generation uint64, drain time.Duration) *fleetpb.Command {
	return &fleetpb.Command{Order: &fleetpb.Command_Stop{Stop: &fleetpb.StopShard{
		Replica: id.Replica, Rank: convert.Rank(id), Generation: generation, Reason: "a test", Drain: durationpb.New(drain),
	}}}
}

func drain(id engines.ShardID, generation uint64) *fleetpb.Command {
	return &fleetpb.Command{Order: &fleetpb.Command_Drain{Drain: &fleetpb.DrainShard{
		Replica: id.Replica, Rank: convert.Rank(id), Generation: generation,
	}}}
}

func sleep(id engines.ShardID, generation uint64) *fleetpb.Command {
	return &fleetpb.Command{Order: &fleetpb.Command_Sleep{Sleep: &fleetpb.SleepShard{
		Replica: id.Replica, Rank: convert.Rank(id), Generation: generation,
	}}}
}

func wake(id engines.ShardID, generation uint64) *fleetpb.Command {
	return &fleetpb.Command{Order: &fleetpb.Command_Wake{Wake: &fleetpb.WakeShard{
		Replica: id.Replica, Rank: convert.Rank(id), Generation: generation,
	}}}
}

// last returns the newest status of a shard, by statuses and hellos.
func (p *plane) last(id engines.ShardID) engines.ShardStatus {
	all := p.statuses[id]
	if len(all) == 0 {
		return engines.ShardStatus{}
	}
	return all[len(all)-1]
}

// reaches waits until a shard's generation is in a state, and returns its status.
func (p *plane) reaches(t *testing.T, id engines.ShardID, generation uint64, want engines.ShardState) engines.ShardStatus {
	t.Helper()
	var st engines.ShardStatus
	p.until(t, id.String()+" is "+want.String(), func() bool {
		st = p.last(id)
		return st.Generation == generation && st.State == want
	})
	return st
}
