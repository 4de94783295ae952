package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gate is the network between a process and the one that it dials: it passes on
// what comes, or nothing, as a network that is cut does, which tells nobody.
type gate struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool              // guarded by mu; nothing passes
	conns  map[net.Conn]bool // guarded by mu; true: nothing passes any more
}

// newGate returns a gate to an address, which is open.
func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at the end
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, to: to, conns: map[net.Conn]bool{}}
	g.wg.Go(g.accept)
	t.Cleanup(func() {
		_ = l.Close()
		g.cut()
		g.join()
		g.wg.Wait()
	})
	return g
}

func (g *gate) address() string { return g.listener.Addr().String() }

func (g *gate) accept() {
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return
		}
		if !g.note(c) {
			continue // it is kept, and hears nothing
		}
		far, err := net.Dial("tcp", g.to) //nolint:noctx // on this machine
		if err != nil {
			_ = c.Close()
			continue
		}
		g.note(far)
		g.wg.Go(func() { g.pass(c, far) })
		g.wg.Go(func() { g.pass(far, c) })
	}
}

// note notes a connection, and reports whether anything passes.
func (g *gate) note(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = g.closed
	return !g.closed
}

// dead reports whether nothing passes on a connection any more.
func (g *gate) dead(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns[c]
}

// pass passes on what comes from one connection to another, and its end.
func (g *gate) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if g.dead(from) {
			if err != nil {
				return // the other end hears of it when the network is there again
			}
			continue
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = io.EOF
			}
		}
		if err != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
	}
}

// cut lets nothing through from now on.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for c := range g.conns {
		g.conns[c] = true
	}
}

// join lets new connections through; those from before have ended.
func (g *gate) join() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	for c, dead := range g.conns {
		if dead {
			_ = c.Close()
			delete(g.conns, c)
		}
	}
}
