package control

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// wire is what a stream needs of the HTTP request below it: deadlines, its body, who
// is at the other end, and at which address it arrives; empty: that is not known.
type wire struct {
	control       *http.ResponseController
	body          *body
	tls           *tls.ConnectionState
	remote, local string
}

type wireKey struct{}

// bodyBuffer holds a heartbeat of a node with eight cards, which has some 1,600
// bytes. Connect reads the length of a message first, and each read of a body that
// is not from a buffer is told to the goroutine that holds the connection.
const bodyBuffer = 2 << 10

// body is a request's, read through a buffer while there is something to read. A
// node says something once in seconds; meanwhile its stream holds no buffer, and
// neither does connect, which takes one of its own for as long as it receives.
type body struct {
	io.ReadCloser
	pool   *sync.Pool    // of *bufio.Reader
	buffer *bufio.Reader // nil: nothing has come since the last message
	first  [1]byte       // what await read
	ahead  bool          // and nobody has had it
	failed error         // why await read nothing
}

// await waits until there is something to read, or an error, which Read returns
// then.
func (b *body) await() {
	if b.buffer != nil {
		if b.buffer.Buffered() > 0 {
			return
		}
		b.buffer.Reset(nil)
		b.pool.Put(b.buffer)
		b.buffer = nil
	}
	for !b.ahead && b.failed == nil {
		var n int
		n, b.failed = b.ReadCloser.Read(b.first[:])
		b.ahead = n > 0
	}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.buffer == nil {
		b.buffer = b.pool.Get().(*bufio.Reader)
		b.buffer.Reset(unbuffered{b})
	}
	return b.buffer.Read(p)
}

// unbuffered is a body below its buffer.
type unbuffered struct{ *body }

func (u unbuffered) Read(p []byte) (n int, err error) {
	if u.ahead && len(p) > 0 {
		p[0], u.ahead = u.first[0], false
		n, p = 1, p[1:]
	}
	if u.failed != nil {
		return n, u.failed
	}
	// What is ahead is the beginning of a message that is longer.
	more, err := u.ReadCloser.Read(p)
	return n + more, err
}

// withWire gives the service what connect hides of a request.
func withWire(next http.Handler) http.Handler {
	pool := &sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bodyBuffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := &wire{control: http.NewResponseController(w), body: &body{ReadCloser: r.Body, pool: pool}, tls: r.TLS, remote: r.RemoteAddr}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			at.local = local.String()
		}
		r = r.WithContext(context.WithValue(r.Context(), wireKey{}, at))
		r.Body = at.body
		next.ServeHTTP(w, r)
	})
}

// service is the protocol's face of a plane.
type service struct{ p *Plane }

type bidi = connect.BidiStream[fleetpb.ConnectRequest, fleetpb.ConnectResponse]

// Connect is an agent's stream, from its registration to its end. The request's
// goroutine reads, and owns one that writes while there is something to write.
func (s service) Connect(ctx context.Context, conn *bidi) error {
	p := s.p
	at, ok := ctx.Value(wireKey{}).(*wire)
	if !ok {
		return connect.NewError(connect.CodeInternal, errors.New("the service is not served by the handler of its plane"))
	}
	// Whatever ends the stream, its last word must not wait for an agent that does
	// not read.
	defer func() { _ = at.control.SetWriteDeadline(time.Now().Add(p.cfg.WriteTimeout)) }()
	st := &stream{plane: p, conn: conn, wire: at, stopped: make(chan struct{})}
	if err := p.open(st); err != nil {
		return p.refused(at, "", err)
	}
	defer p.close(st)
	if err := p.registered(st); err != nil {
		return err
	}
	st.begin()
	st.read()
	st.writer.Wait()
	return st.end()
}

// stream is a node's stream. Its methods may be called at the same time, but for
// read.
type stream struct {
	plane *Plane
	conn  *bidi
	wire  *wire
	node  *node // set when it registers

	stopped chan struct{} // closed when the stream is to end
	// writing is when the write that goes on began, in nanoseconds since the
	// plane's beginning; 0: none does.
	writing atomic.Int64

	writer   sync.WaitGroup // one, while there is something to write
	mu       sync.Mutex
	begun    bool                     // it is read and written; guarded by mu
	busy     bool                     // the writer runs; guarded by mu
	cause    error                    // why it is to end; guarded by mu
	over     bool                     // the request ends: its deadlines are out of reach; guarded by mu
	beat     *fleetpb.Beat            // the newest that was not written; guarded by mu
	look     *fleetpb.ConnectResponse // the newest that was not written; guarded by mu
	commands []*fleetpb.Command       // not written, bounded by Config.MaxCommandsPerNode; guarded by mu
}

// begin has the stream read and written from now on. It is welcomed.
func (st *stream) begin() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begun = true
	if st.cause != nil {
		st.abandon()
	}
	st.ring()
}

// end returns the error for the agent of a stream that has ended.
func (st *stream) end() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if errors.Is(st.cause, errEnded) {
		return nil
	}
	return st.cause
}

// stop ends the stream with an error for the agent. The first counts.
func (st *stream) stop(cause error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cause != nil {
		return
	}
	st.cause = cause
	close(st.stopped)
	if st.begun && !st.over {
		st.abandon()
	}
}

// errEnded: the agent has ended the stream, and wants no error.
var errEnded = errors.New("the agent ended the stream")

// abandon unblocks whoever reads, when what has come is read. st.mu is held.
func (st *stream) abandon() { _ = st.wire.control.SetReadDeadline(time.Unix(1, 0)) }

// reset ends the stream without a word, which unblocks whoever writes.
func (st *stream) reset() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over {
		_ = st.wire.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// finish is called when the request ends.
func (st *stream) finish() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
}

// read takes messages until the stream ends.
func (st *stream) read() {
	pace := pace{perSecond: st.plane.cfg.MaxMessagesPerSecond, paid: math.MinInt64}
	msg := new(message)
	for {
		msg.clear()
		st.wire.body.await()
		err := st.conn.Conn().Receive(msg)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errEnded
			}
			st.stop(err)
			return
		}
		if err := st.plane.received(st, msg); err != nil {
			st.stop(err)
			return
		}
		if wait := pace.take(time.Since(st.plane.base)); wait > 0 {
			select {
			case <-st.stopped:
			case <-time.After(wait):
			}
		}
	}
}

// pace bounds how many messages are taken in a second: a bucket of four seconds'
// worth, in time.
type pace struct {
	perSecond int
	paid      time.Duration // the moment until which messages have been taken; at first the least
}

// take takes one message, and returns how long to wait before the next.
func (p *pace) take(now time.Duration) time.Duration {
	const burst = 4 * time.Second
	p.paid = max(p.paid, now-burst) + time.Second/time.Duration(p.perSecond)
	return max(p.paid-now, 0)
}

// write sends what there is to send.
func (st *stream) write() {
	for msg := st.next(); msg != nil; msg = st.next() {
		if err := st.send(msg); err != nil {
			st.stop(fmt.Errorf("control: write to the agent: %w", err))
		}
	}
}

func (st *stream) send(msg *fleetpb.ConnectResponse) error {
	st.writing.Store(int64(time.Since(st.plane.base)) + 1)
	defer st.writing.Store(0)
	return st.conn.Send(msg)
}

// next takes the next message to send: beats first, since they are what the
// agent knows us to live by. Nil: there is none, and the writer ends.
func (st *stream) next() *fleetpb.ConnectResponse {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.cause != nil:
		st.busy = false
		return nil
	case st.beat != nil:
		beat := st.beat
		st.beat = nil
		return &fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Beat{Beat: beat}}
	case st.look != nil:
		look := st.look
		st.look = nil
		return look
	case len(st.commands) > 0:
		c := st.commands[0]
		if st.commands = st.commands[1:]; len(st.commands) == 0 {
			st.commands = nil
		}
		return &fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Command{Command: c}}
	}
	st.busy = false
	return nil
}

// answer has a beat sent. One that waits is replaced: the newer asks for all that
// it asked for and did not come.
func (st *stream) answer(beat *fleetpb.Beat) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.beat = beat
	st.ring()
}

// order has a command sent. It reports false if as many wait as the agent may
// have, which then does not read.
func (st *stream) order(c *fleetpb.Command) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.commands) >= st.plane.cfg.MaxCommandsPerNode {
		return false
	}
	st.commands = append(st.commands, c)
	st.ring()
	return true
}

// ring has a writer for what waits. It ends when nothing does: a node is written
// to once in seconds, and the stack of a goroutine that waits for that is more
// than all that is known of the node. st.mu is held.
func (st *stream) ring() {
	if st.begun && !st.busy && st.cause == nil {
		st.busy = true
		st.writer.Go(st.write)
	}
}

// stuck reports whether a write has gone on for too long.
func (st *stream) stuck(now time.Time) bool {
	begun := st.writing.Load()
	return begun != 0 && now.Sub(st.plane.base)-time.Duration(begun-1) > st.plane.cfg.WriteTimeout
}

// welcome is the answer to a registration.
func (p *Plane) welcome(m Mandate, now time.Time) *fleetpb.ConnectResponse {
	return &fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Welcome{Welcome: &fleetpb.Welcome{
		Protocol: protocol, Cluster: m.Cluster, Term: m.Term,
		Heartbeat:        durationpb.New(p.cfg.Heartbeat),
		UnreachableAfter: durationpb.New(p.cfg.UnreachableAfter),
		LostAfter:        durationpb.New(p.cfg.LostAfter),
		At:               timestamppb.New(now),
		MgmtInterface:    &p.cfg.MgmtInterface,
		PortRange:        &fleetpb.PortRange{First: uint32(p.cfg.PortRange[0]), Last: uint32(p.cfg.PortRange[1])}, //nolint:gosec // ports
	}}}
}
