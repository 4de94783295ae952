package zmtp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines/kvevents/internal/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is both ends of a connection after their handshakes.
func pair(t *testing.T, a, b zmtp.SocketType, limit int) (client, server *zmtp.Conn) {
	t.Helper()
	c, s := net.Pipe()
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	done := make(chan error, 1)
	go func() {
		var err error
		server, err = zmtp.Handshake(s, b, limit)
		done <- err
	}()
	client, err := zmtp.Handshake(c, a, limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestMessages(t *testing.T) {
	client, server := pair(t, zmtp.Dealer, zmtp.Router, 1<<20)
	messages := [][][]byte{
		{{}},
		{[]byte("one")},
		{{}, []byte("two"), bytes.Repeat([]byte("x"), 255)},
		{bytes.Repeat([]byte("y"), 256), bytes.Repeat([]byte("z"), 300_000), {}},
	}
	sent := make(chan error, 1)
	go func() {
		for _, m := range messages {
			if err := client.Write(m...); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i, m := range messages {
		got, err := server.Read()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.Join(got, []byte("|")), bytes.Join(m, []byte("|"))) {
			t.Errorf("message %d: %d frames differ from those sent", i, len(got))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, bytes string
		want        error
	}{
		{"a frame beyond the limit", "\x02\x00\x00\x00\x00\x00\x00\x10\x01", zmtp.ErrTooLarge},
		{"frames beyond the limit", "\x03\x00\x00\x00\x00\x00\x00\x0f\xff" + strings.Repeat("x", 0xfff) + "\x00\x02xx", zmtp.ErrTooLarge},
		{"a length of 2^63", "\x02\x80\x00\x00\x00\x00\x00\x00\x00", zmtp.ErrTooLarge},
		{"too many frames", strings.Repeat("\x01\x00", 17), zmtp.ErrTooLarge},
		{"unknown flags", "\x08\x00", zmtp.ErrProtocol},
		{"a command of parts", "\x05\x00", zmtp.ErrProtocol},
		{"a command without a name", "\x04\x00", zmtp.ErrProtocol},
		{"an error", "\x04\x07\x05ERROR\x00", zmtp.ErrRefused},
		{"the end in a frame", "\x00\x05abc", io.ErrUnexpectedEOF},
		{"the end", "", io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, server := pair(t, zmtp.Sub, zmtp.Pub, 0x1000)
			go func() {
				_, _ = server.NetConn().Write([]byte(tt.bytes))
				_ = server.Close()
			}()
			if m, err := client.Read(); !errors.Is(err, tt.want) {
				t.Errorf("read %q, %v; want %v", m, err, tt.want)
			}
		})
	}
}

// PING is answered between the frames of a message; other commands are skipped.
func TestCommands(t *testing.T) {
	client, server := pair(t, zmtp.Sub, zmtp.Pub, 1<<20)
	wrote := make(chan error, 1)
	go func() {
		_, err := server.NetConn().Write([]byte("\x01\x01a" + "\x04\x0a\x04PING\x00\x0aabc" + "\x04\x07\x06FUTURE" + "\x00\x01b"))
		wrote <- err
	}()
	pong := make(chan string, 1)
	go func() {
		b := make([]byte, 10)
		_, _ = io.ReadFull(server.NetConn(), b)
		pong <- string(b)
	}()
	m, err := client.Read()
	if err != nil || string(bytes.Join(m, []byte("|"))) != "a|b" {
		t.Errorf("read %q, %v", m, err)
	}
	if got := <-pong; got != "\x04\x08\x04PONGabc" {
		t.Errorf("answered %q", got)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func TestHandshakeRefuses(t *testing.T) {
	greeting := func(version byte, mechanism string) string {
		g := make([]byte, 64)
		g[0], g[9], g[10] = 0xff, 0x7f, version
		copy(g[12:], mechanism)
		return string(g)
	}
	null := greeting(3, "NULL")
	ready := func(metadata string) string { return "\x04" + string(rune(6+len(metadata))) + "\x05READY" + metadata }
	for _, tt := range []struct {
		name, bytes string
		want        error
		text        string
	}{
		{"http", "HTTP/1.1 400 Bad Request\r\n\r\n", zmtp.ErrProtocol, "does not speak ZMTP"},
		{"version", greeting(2, "NULL"), zmtp.ErrProtocol, "speaks ZMTP 2"},
		{"mechanism", greeting(3, "CURVE"), zmtp.ErrProtocol, `mechanism "CURVE"`},
		{"a message", null + "\x00\x00", zmtp.ErrProtocol, "in place of READY"},
		{"another command", null + "\x04\x04\x03FOO", zmtp.ErrProtocol, `"FOO" in place`},
		{"refusal", null + "\x04\x0a\x05ERROR\x03why", zmtp.ErrRefused, "why"},
		{"no socket type", null + ready(""), zmtp.ErrProtocol, "without Socket-Type"},
		{"cut metadata", null + ready("\x0bSocket"), zmtp.ErrProtocol, "cut off"},
		{"cut value", null + ready("\x0bsocket-type\x00\x00\x00\x09PUB"), zmtp.ErrProtocol, "cut off"},
		{"wrong socket", null + ready("\x0bSocket-Type\x00\x00\x00\x04PUSH"), zmtp.ErrProtocol, `"PUSH" socket`},
		{"the end", null[:20], io.ErrUnexpectedEOF, "greeting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				go func() { _, _ = io.Copy(io.Discard, s) }()
				_, _ = s.Write([]byte(tt.bytes))
				if errors.Is(tt.want, io.ErrUnexpectedEOF) {
					_ = s.Close()
				}
			}()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			_, err := zmtp.Handshake(c, zmtp.Sub, 1<<20)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v; want %v, %q", err, tt.want, tt.text)
			}
			_, _ = c.Close(), s.Close()
			<-done
		})
	}
}

// FuzzRead: nothing that comes after a handshake makes more memory than it has.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x01\x01a\x00\x01b"))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x01\x00"))
	f.Add([]byte("\x04\x0a\x04PING\x00\x0aabc\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := pair(t, zmtp.Sub, zmtp.Pub, 1<<16)
		go func() { _, _ = io.Copy(io.Discard, server.NetConn()) }()
		go func() {
			_, _ = server.NetConn().Write(data)
			_ = server.Close()
		}()
		total := 0
		for {
			m, err := client.Read()
			if err != nil {
				break
			}
			for _, frame := range m {
				total += len(frame)
			}
		}
		if total > len(data) {
			t.Errorf("%d bytes in frames from %d", total, len(data))
		}
	})
}
