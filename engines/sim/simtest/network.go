package simtest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Network is hosts in memory. The zero value is one without hosts, ready for
// use. Its methods may be called concurrently. In a bubble of testing/synctest
// make a Network of its own.
type Network struct {
	mu    sync.Mutex
	hosts map[string]*host // by address; guarded by mu
}

// Listen returns a listener at an address, such as engine:80, until it is
// closed; the address may then be listened at again. An address is compared
// byte by byte: engine and engine:80 are two, and nothing is looked up.
// An address that is taken is an error wrapping [syscall.EADDRINUSE].
func (n *Network) Listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, taken := n.hosts[address]; taken {
		return nil, &net.OpError{Op: "listen", Net: name, Addr: addr(address), Err: syscall.EADDRINUSE}
	}
	h := &host{network: n, address: addr(address), incoming: make(chan net.Conn), closed: make(chan struct{})}
	if n.hosts == nil {
		n.hosts = make(map[string]*host)
	}
	n.hosts[address] = h
	return h, nil
}

// Dial connects to the listener at an address, with a [net.Pipe]: without a
// buffer, so that a write waits until it is read. It waits until the connection
// is accepted, or returns ctx's cause. Where nobody listens, or no longer, the
// error wraps [syscall.ECONNREFUSED]. The network's name is ignored, so that
// Dial fits http.Transport.DialContext and the Dial of gateway.Deps.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	failed := func(err error) error {
		return &net.OpError{Op: "dial", Net: name, Addr: addr(address), Err: err}
	}
	n.mu.Lock()
	h, ok := n.hosts[address]
	n.mu.Unlock()
	if !ok {
		return nil, failed(syscall.ECONNREFUSED)
	}
	near, far := net.Pipe()
	select {
	case h.incoming <- far:
		return near, nil
	case <-h.closed:
		return nil, failed(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, failed(fmt.Errorf("not accepted: %w", context.Cause(ctx)))
	}
}

// forget frees the address of a host that is closed.
func (n *Network) forget(h *host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.hosts, string(h.address))
}

// host is the listener at one address.
type host struct {
	network  *Network
	address  addr
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.incoming:
		return c, nil
	case <-h.closed:
		return nil, &net.OpError{Op: "accept", Net: name, Addr: h.address, Err: net.ErrClosed}
	}
}

// Close ends Accept and refuses who dials; connections stay.
func (h *host) Close() error {
	h.once.Do(func() {
		close(h.closed)
		h.network.forget(h)
	})
	return nil
}

func (h *host) Addr() net.Addr { return h.address }

const name = "memory"

// addr is an address in a Network.
type addr string

func (addr) Network() string  { return name }
func (a addr) String() string { return string(a) }
