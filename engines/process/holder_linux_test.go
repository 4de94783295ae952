package process_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/engines/process"
)

func TestPortHolderIsNamed(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log(err) // no IPv6 here
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if ports, err := process.Listening(); err != nil || !slices.Contains(ports, port) || !slices.IsSorted(ports) {
			t.Errorf("%s: %d is not among those that are listened on: %v, %v", address, port, ports, err)
		}
		h, held := process.PortHolder(port)
		if !held || h.PID != os.Getpid() || !strings.Contains(h.Command, "process.test") || h.Port != port {
			t.Errorf("%s: holder is %+v, %v", address, h, held)
		}
		sp := spec(t, "print=ready")
		sp.Ports = []int{port}
		_, err = runner(t, nil).Start(t.Context(), sp)
		refused, ok := errors.AsType[*process.PortsError](err)
		if !ok || !errors.Is(err, process.ErrPorts) || len(refused.Holders) != 1 || refused.Holders[0].PID != os.Getpid() {
			t.Errorf("%s: Start: %v", address, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if h, held := process.PortHolder(port); held {
			t.Errorf("%s: after its end: %v", address, h)
		}
		if ports, err := process.Listening(); err != nil || slices.Contains(ports, port) {
			t.Errorf("%s: after its end %d is listened on: %v", address, port, err)
		}
	}
}

// TestPortThatIsBoundAndNotListenedOn: engines bind their port long before they
// listen on it.
func TestPortThatIsBoundAndNotListenedOn(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	if h, held := process.PortHolder(port); !held || h.PID != 0 || !strings.Contains(h.String(), "its holder cannot be seen") {
		t.Errorf("holder is %v, %v", h, held)
	}
}
