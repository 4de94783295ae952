package frames_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/internal/frames"
)

// sent is a transport that gives each read of a body to a function.
type sent struct {
	read func(io.Reader) error
	idle int
}

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		return nil, s.read(nil)
	}
	defer req.Body.Close()
	return nil, s.read(req.Body)
}

func (s *sent) CloseIdleConnections() { s.idle++ }

func message(size int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), bytes.Repeat([]byte{'x'}, size)...)
}

// send sends a body through [frames.Whole], and has read read it.
func send(t *testing.T, body io.ReadCloser, read func(io.Reader) error) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agents", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Body = body
	_, err = frames.Whole(&sent{read: read}).RoundTrip(req) //nolint:bodyclose // there is no response
	if req.Body != body {
		t.Error("the caller's request was changed")
	}
	return err
}

// Messages that are written in parts are read one by one.
func TestAMessageIsOneRead(t *testing.T) {
	r, w := io.Pipe()
	sizes := []int{3, 0, 2000, 1}
	go func() {
		for _, size := range sizes {
			m := message(size)
			_, _ = w.Write(m[:5])
			_, _ = w.Write(m[5:])
		}
		_ = w.Close()
	}()
	err := send(t, r, func(body io.Reader) error {
		buf := make([]byte, 64<<10)
		for _, size := range sizes {
			if n, err := body.Read(buf); err != nil || !bytes.Equal(buf[:n], message(size)) {
				t.Errorf("of a message of %d bytes a read has %d, %v", size, n, err)
			}
		}
		_, err := body.Read(buf)
		return err
	})
	if !errors.Is(err, io.EOF) {
		t.Errorf("the body ends with %v", err)
	}
}

// A long message comes in pieces, and the next begins with its own.
func TestLongMessage(t *testing.T) {
	all := append(message(10_000), message(7)...)
	_ = send(t, io.NopCloser(bytes.NewReader(all)), func(body io.Reader) error {
		buf := make([]byte, 64<<10)
		for _, want := range []int{4096, 4096, 10_005 - 2*4096, 12} {
			if n, err := body.Read(buf); n != want || err != nil {
				t.Errorf("a read has %d bytes, %v; want %d", n, err, want)
			}
		}
		return nil
	})
}

// However a body is written and read, it is what was written, up to where it ends.
func TestBodyIsWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []byte
		for _, size := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 5).Draw(rt, "sizes") {
			all = append(all, message(size)...)
		}
		all = all[:rapid.IntRange(0, len(all)).Draw(rt, "cut off")]
		written := io.Reader(bytes.NewReader(all))
		switch rapid.IntRange(0, 2).Draw(rt, "written") {
		case 1:
			written = iotest.OneByteReader(written)
		case 2:
			written = iotest.DataErrReader(written)
		}
		_ = send(t, io.NopCloser(written), func(body io.Reader) error {
			var got []byte
			for {
				buf := make([]byte, rapid.IntRange(1, 12).Draw(rt, "room"))
				n, err := body.Read(buf)
				got = append(got, buf[:n]...)
				if err != nil {
					if !bytes.Equal(got, all) || !errors.Is(err, io.EOF) {
						rt.Fatalf("read %q, %v; want %q", got, err, all)
					}
					return nil
				}
			}
		})
	})
}

func TestErrorOfABody(t *testing.T) {
	broken := errors.New("broken")
	body := io.MultiReader(strings.NewReader(string(message(9))[:7]), iotest.ErrReader(broken))
	err := send(t, io.NopCloser(body), func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestWithoutABody(t *testing.T) {
	if err := send(t, nil, func(body io.Reader) error {
		if body != nil {
			t.Error("it got one")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	s := new(sent)
	client := http.Client{Transport: frames.Whole(s)}
	client.CloseIdleConnections()
	if s.idle != 1 {
		t.Error("they are not")
	}
}
