package control

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// handshakeTimeout is how long a connection may take to prove itself. It is what
// [Configure] lets net/http wait for it, too.
const handshakeTimeout = 10 * time.Second

// NewListener is [tls.NewListener] for connections that are held for days, as those
// of agents: it makes the handshake before Accept returns the connection, each on a
// goroutine that ends with it. net/http makes it on the goroutine that holds the
// connection, which then keeps the stack that it took. At 2,000 agents that is 16 MB.
//
// One whose handshake fails is returned like all others: who first uses it is told.
func NewListener(inner net.Listener, cfg *tls.Config) net.Listener {
	l := &listener{Listener: inner, cfg: cfg, accepted: make(chan net.Conn), failed: make(chan error)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// listener makes handshakes.
type listener struct {
	net.Listener

	cfg      *tls.Config
	ctx      context.Context //nolint:containedctx // of what Accept begins: until Close
	cancel   context.CancelFunc
	begin    sync.Once
	accepted chan net.Conn
	failed   chan error // of the listener's Accept
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.run() })
	select {
	case conn := <-l.accepted:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the listener and all handshakes.
func (l *listener) Close() error {
	l.cancel()
	return l.Listener.Close()
}

func (l *listener) run() {
	for l.ctx.Err() == nil {
		conn, err := l.Listener.Accept()
		if err == nil {
			go l.shake(tls.Server(conn, l.cfg))
			continue
		}
		select {
		case l.failed <- err:
		case <-l.ctx.Done():
		}
	}
}

func (l *listener) shake(conn *tls.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	_ = conn.HandshakeContext(ctx) // is asked for again
	select {
	case l.accepted <- conn:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}
