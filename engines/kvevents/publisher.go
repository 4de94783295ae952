package kvevents

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents/internal/zmtp"
)

// PublisherConfig says how an engine publishes. Start from
// [DefaultPublisherConfig].
type PublisherConfig struct {
	// Topic is the first frame of every message. Default empty; up to 255
	// bytes.
	Topic string
	// Encoding is how events are written. Default [Map].
	Encoding Encoding
	// BufferSteps is how many batches are kept for replay. Default 10000; 0
	// keeps none; not negative.
	BufferSteps int
	// BufferBytes bounds the payload of these batches. Default 64 MiB; 0
	// keeps none; not negative.
	BufferBytes int
	// HWM is how many batches may wait for one subscriber; what comes beyond
	// is lost to it. Default 10000; 1 or more.
	HWM int
}

// DefaultPublisherConfig returns the defaults.
func DefaultPublisherConfig() PublisherConfig {
	return PublisherConfig{Encoding: Map, BufferSteps: 10000, BufferBytes: 64 << 20, HWM: 10000}
}

// Validate reports every problem, joined.
func (c PublisherConfig) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Topic) > 255 {
		bad("topic: %d bytes are too many; want at most 255", len(c.Topic))
	}
	if c.Encoding != Array && c.Encoding != Map {
		bad("encoding: %d is none; want Array or Map", c.Encoding)
	}
	if c.BufferSteps < 0 {
		bad("buffer_steps: %d is negative; want 0 (keeps none) or more", c.BufferSteps)
	}
	if c.BufferBytes < 0 {
		bad("buffer_bytes: %d is negative; want 0 (keeps none) or more", c.BufferBytes)
	}
	if c.HWM < 1 {
		bad("hwm: %d is too small; want 1 or more", c.HWM)
	}
	return errors.Join(errs...)
}

// Publisher tells subscribers of one engine's cache: a PUB socket and a ROUTER
// socket for replay. Its methods may be called concurrently.
type Publisher struct {
	cfg PublisherConfig
	log *slog.Logger

	mu      sync.Mutex
	next    int64 // guarded by mu; number of the next batch
	buffer  ring  // guarded by mu
	subs    map[*subscription]struct{}
	dropped int64 // guarded by mu; batches lost to a subscriber
}

// subscription is a connected subscriber.
type subscription struct {
	conn  *zmtp.Conn
	queue chan *message

	mu       sync.Mutex
	prefixes [][]byte // guarded by mu; what it subscribed to, as often as it did
}

// maxSubscriptions bounds the prefixes of one subscriber.
const maxSubscriptions = 1024

// NewPublisher validates cfg. It opens nothing; call [Publisher.Serve]. A nil
// log discards.
func NewPublisher(cfg PublisherConfig, log *slog.Logger) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kvevents: publisher: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Publisher{
		cfg: cfg, log: log, subs: make(map[*subscription]struct{}),
		buffer: ring{steps: cfg.BufferSteps, bytes: cfg.BufferBytes},
	}, nil
}

// Publish sends events as one batch to all subscribers of the moment, and keeps
// it for replay. It never blocks: a subscriber whose queue is full loses the
// batch. rank is the data-parallel rank to name, -1 for none. It returns the
// batch's number. It keeps nothing of events.
func (p *Publisher) Publish(at time.Time, rank int, events []Event) int64 {
	b := Batch{Time: float64(at.UnixNano()) / float64(time.Second), EngineRank: rank, Events: events}
	payload := Append(nil, &b, p.cfg.Encoding)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &message{p.next, payload}
	p.next++
	p.buffer.add(m)
	for s := range p.subs {
		if !s.wants(p.cfg.Topic) {
			continue
		}
		select {
		case s.queue <- m:
		default:
			p.dropped++
		}
	}
	return m.seq
}

// Dropped is how many batches were lost to a subscriber that did not keep up.
func (p *Publisher) Dropped() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Subscribers is how many subscribers are connected and want the topic.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.subs {
		if s.wants(p.cfg.Topic) {
			n++
		}
	}
	return n
}

// Serve answers subscribers on events and requests for replay on replay, which
// may be nil, until ctx is done; then it closes both and all connections, and
// returns nil once its goroutines have ended. It returns an error if a listener
// fails before.
func (p *Publisher) Serve(ctx context.Context, events, replay net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	accept := func(ln net.Listener, serve func(context.Context, net.Conn) error) {
		err := p.accept(ctx, ln, serve)
		once.Do(func() { failure = err })
		cancel()
	}
	wg.Go(func() { accept(events, p.serveSubscriber) })
	if replay != nil {
		wg.Go(func() { accept(replay, p.serveReplay) })
	}
	wg.Wait()
	return failure
}

// accept serves the connections of ln until ctx is done or ln fails; then it ends
// them and waits for that.
func (p *Publisher) accept(ctx context.Context, ln net.Listener, serve func(context.Context, net.Conn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			_ = ln.Close()
			return fmt.Errorf("kvevents: accept: %w", err)
		}
		wg.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			defer func() { _ = c.Close() }()
			if err := serve(ctx, c); err != nil && ctx.Err() == nil {
				p.log.Debug("connection to KV events ended", "peer", c.RemoteAddr().String(), "err", err)
			}
		})
	}
}

const (
	handshakeTimeout = 10 * time.Second
	// maxRequestBytes bounds what a subscriber or a request for replay says.
	maxRequestBytes = 4 << 10
)

func handshake(c net.Conn, t zmtp.SocketType) (*zmtp.Conn, error) {
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	z, err := zmtp.Handshake(c, t, maxRequestBytes)
	_ = c.SetDeadline(time.Time{})
	return z, err
}

// serveSubscriber reads the peer's subscriptions while another goroutine sends.
func (p *Publisher) serveSubscriber(ctx context.Context, c net.Conn) error {
	z, err := handshake(c, zmtp.Pub)
	if err != nil {
		return err
	}
	s := &subscription{conn: z, queue: make(chan *message, p.cfg.HWM)}
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer func() {
		p.mu.Lock()
		delete(p.subs, s)
		p.mu.Unlock()
		_ = z.Close()
	}()
	wg.Go(func() { s.send(ctx, p.cfg.Topic) })
	for {
		frames, err := z.Read()
		if err != nil {
			return err
		}
		if err := s.subscribe(frames); err != nil {
			return err
		}
	}
}

// subscribe takes a subscription or its end. Other messages are ignored.
func (s *subscription) subscribe(frames [][]byte) error {
	prefix, add, ok := zmtp.Subscription(frames)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if add {
		if len(s.prefixes) == maxSubscriptions {
			return fmt.Errorf("kvevents: more than %d subscriptions", maxSubscriptions)
		}
		s.prefixes = append(s.prefixes, bytes.Clone(prefix))
		return nil
	}
	for i, have := range s.prefixes {
		if bytes.Equal(have, prefix) {
			s.prefixes = append(s.prefixes[:i], s.prefixes[i+1:]...)
			break
		}
	}
	return nil
}

func (s *subscription) wants(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.prefixes {
		if len(p) <= len(topic) && topic[:len(p)] == string(p) {
			return true
		}
	}
	return false
}

// send empties the queue into the connection until ctx is done or it breaks.
func (s *subscription) send(ctx context.Context, topic string) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.queue:
			err := s.conn.WriteBuffered([]byte(topic), number8(m.seq), m.payload)
			if len(s.queue) == 0 && err == nil {
				err = s.conn.Flush()
			}
			if err != nil {
				_ = s.conn.Close() // ends the reader, which cleans up
				return
			}
		}
	}
}

func number8(seq int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

// serveReplay answers requests for batches, each with all from its number on and
// then the end mark.
func (p *Publisher) serveReplay(_ context.Context, c net.Conn) error {
	z, err := handshake(c, zmtp.Router)
	if err != nil {
		return err
	}
	for {
		frames, err := z.Read()
		if err != nil {
			return err
		}
		// A REQ socket puts an empty frame first; vLLM wants it of all.
		if len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != 8 {
			p.log.Debug("no request for replay", "peer", c.RemoteAddr().String(), "frames", len(frames))
			continue
		}
		first := binary.BigEndian.Uint64(frames[1])
		p.mu.Lock()
		wanted := p.buffer.from(first)
		p.mu.Unlock()
		for _, m := range wanted {
			if err := z.WriteBuffered(nil, []byte(p.cfg.Topic), number8(m.seq), m.payload); err != nil {
				return err
			}
		}
		if err := z.Write(nil, []byte(p.cfg.Topic), number8(-1), nil); err != nil {
			return err
		}
	}
}
