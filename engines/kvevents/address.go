package kvevents

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// address is a parsed tcp endpoint.
type address struct {
	host string // "" for a wildcard
	port int
}

// parseEndpoint reads tcp://HOST:PORT, as engines are configured with.
func parseEndpoint(s string) (address, error) {
	rest, ok := strings.CutPrefix(s, "tcp://")
	if !ok {
		return address{}, fmt.Errorf("%q is no TCP endpoint; want tcp://HOST:PORT, e.g. tcp://10.0.0.7:5557", s)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return address{}, fmt.Errorf("%q: %w; want tcp://HOST:PORT, e.g. tcp://10.0.0.7:5557", s, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return address{}, fmt.Errorf("%q has the port %q; want a number from 0 to 65535", s, port)
	}
	if host == "*" {
		host = ""
	}
	return address{host, int(n)}, nil
}

// rank is the address of a data-parallel rank, for dialling or listening.
func (a address) rank(r int) string { return net.JoinHostPort(a.host, strconv.Itoa(a.port+r)) }

// Listen opens a tcp endpoint as engines are configured with: tcp://HOST:PORT,
// where HOST may be * and PORT 0.
func Listen(ctx context.Context, endpoint string) (net.Listener, error) {
	a, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, fmt.Errorf("kvevents: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", a.rank(0))
	if err != nil {
		return nil, fmt.Errorf("kvevents: %w", err)
	}
	return ln, nil
}

// CheckEndpoint says what is wrong with an endpoint to listen on.
func CheckEndpoint(endpoint string) error {
	_, err := parseEndpoint(endpoint)
	return err
}
