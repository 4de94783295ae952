package control_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/llmgw/llmgw/fleet/control"
)

// Connections come with their handshakes made, in whatever order these end; of one
// that fails, who uses it is told why.
func TestListener(t *testing.T) {
	certs := newCertifier(t)
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := control.NewListener(inner, certs.server())
	defer l.Close()
	dial := func() net.Conn {
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	accept := func() *tls.Conn {
		t.Helper()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn.(*tls.Conn)
	}

	silent := dial() // nobody waits for it
	shaken := make(chan error, 1)
	client := tls.Client(dial(), &tls.Config{RootCAs: certs.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13})
	go func() { shaken <- client.HandshakeContext(t.Context()) }()
	conn := accept()
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	if !conn.ConnectionState().HandshakeComplete {
		t.Error("the handshake is still to be made")
	}
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 5)
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != "hello" {
		t.Errorf("%q, %v", said, err)
	}

	if _, err := dial().Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := accept().HandshakeContext(t.Context()); !errors.As(err, new(tls.RecordHeaderError)) {
		t.Errorf("one that speaks in clear: %v", err)
	}

	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if n, err := silent.Read(said); n > 0 || err == nil {
		t.Errorf("one whose handshake was not made is open yet: %d, %v", n, err)
	}
}

// An error of the listener below is who accepts', and no end of the listener.
func TestListenerThatFails(t *testing.T) {
	inner := &failing{errs: []error{errors.New("too many files"), errors.New("too many yet")}, closed: make(chan struct{})}
	l := control.NewListener(inner, &tls.Config{MinVersion: tls.VersionTLS13})
	for _, want := range []string{"too many files", "too many yet"} {
		if _, err := l.Accept(); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// failing is a listener that has errors to give.
type failing struct {
	net.Listener
	errs   []error
	closed chan struct{}
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		<-f.closed
		return nil, net.ErrClosed
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

func (f *failing) Close() error {
	close(f.closed)
	return nil
}
