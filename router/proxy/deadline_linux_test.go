package proxy_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// deaf is the address of a port whose queue of connections is full: it answers
// no further one, as a host does that is gone.
func deaf(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
	for range 10 {
		c, err := net.DialTimeout("tcp", addr, short)
		if err != nil {
			return addr // full
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("ten connections do not fill a queue of one")
	return ""
}

func TestDialDeadline(t *testing.T) {
	t.Parallel()
	addr := deaf(t)
	for _, tt := range []struct {
		name string
		mod  func(to *proxy.Timeouts)
		want proxy.Kind
	}{
		{"dial", func(to *proxy.Timeouts) { to.Dial = short }, proxy.KindDial},
		{"total", func(to *proxy.Timeouts) { to.Total = short }, proxy.KindTotalTimeout},
	} {
		for _, scheme := range []string{"http", "https", "h2c"} {
			t.Run(tt.name+"/"+scheme, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, scheme+"://"+addr, func(c *proxy.Config) { tt.mod(&c.Timeouts) })
				start := time.Now()
				got := b.do(t.Context(), post())
				got.wantKind(t, tt.want)
				if d := time.Since(start); d < short || d > patient/2 {
					t.Errorf("given up after %v", d)
				}
				if n := b.metric(t, "failures_total", tt.want.String()); n != 1 {
					t.Errorf("%d failures counted, want 1", n)
				}
			})
		}
	}
}
