package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Found is a candidate that answered as an engine does.
type Found struct {
	Candidate

	// Name is what it is registered by.
	Name string
	// Model is the first model that it serves.
	Model string
	// Models is how many it serves.
	Models int
}

// outcome is what became of a probe. Its String is a metric label.
type outcome uint8

const (
	probeEngine    outcome = iota
	probeSilent            // no connection, or no answer in time
	probeLocked            // 401 or 403: it wants a key, so what it serves is not known
	probeLoading           // 503, or an engine that serves nothing
	probeNoEngine          // something else answered
	probeForbidden         // ErrForbidden
	probeOutcomes
)

var probeNames = [probeOutcomes]string{"engine", "silent", "locked", "loading", "no_engine", "forbidden"} //nolint:gochecknoglobals // constant table

func (o outcome) String() string { return probeNames[o] }

// prober asks candidates what they serve. It is safe for concurrent use.
type prober struct {
	cfg       ProbeConfig
	transport http.RoundTripper // nil: one of its own for each scan
	log       *slog.Logger
	metrics   *metrics
}

// probeAll asks all candidates, cfg.AtOnce at a time, and returns those that are
// engines, in their order and not named yet. It returns when all are through, or
// with the cause when ctx is done. What fence forbids is not asked.
func (p *prober) probeAll(ctx context.Context, candidates []Candidate, fence Fence) ([]Found, error) {
	transport := p.transport
	if transport == nil {
		own := newProbeTransport(fence, p.cfg.DialTimeout)
		defer own.CloseIdleConnections()
		transport = own
	}
	client := &http.Client{
		Transport: transport,
		// An engine answers itself. What points elsewhere is none, and following it
		// would have this machine ask whatever it names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	results := make([]*Found, len(candidates))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(p.cfg.AtOnce, len(candidates)) {
		wg.Go(func() {
			for i := range next {
				results[i] = p.probe(ctx, client, candidates[i], fence)
			}
		})
	}
	for i := range candidates {
		next <- i // probes end by their own deadlines, and at once when ctx is done
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("discover: probe: %w", context.Cause(ctx))
	}
	var out []Found
	for _, f := range results {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out, nil
}

func (p *prober) probe(ctx context.Context, client *http.Client, c Candidate, fence Fence) *Found {
	begun := time.Now()
	models, out, err := p.ask(ctx, client, c.BaseURL, fence)
	if ctx.Err() != nil {
		return nil
	}
	p.metrics.probed(out, time.Since(begun))
	if out != probeEngine {
		// Most of what a scan looks at is something else, each time.
		p.log.DebugContext(ctx, "no engine here", "api_base", c.BaseURL, "origin", c.Origin, "outcome", out.String(), "err", err)
		return nil
	}
	return &Found{Candidate: c, Model: models[0], Models: len(models)}
}

func (p *prober) ask(ctx context.Context, client *http.Client, base string, fence Fence) ([]string, outcome, error) {
	if err := fence.CheckURL(base); err != nil {
		return nil, probeForbidden, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", http.NoBody)
	if err != nil {
		return nil, probeForbidden, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "llmgw-discover")
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, ErrForbidden):
		return nil, probeForbidden, err
	case err != nil:
		return nil, probeSilent, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is wanted of it
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, probeLocked, fmt.Errorf("status %d: it wants a key", resp.StatusCode)
	case http.StatusServiceUnavailable:
		return nil, probeLoading, fmt.Errorf("status %d", resp.StatusCode)
	default:
		return nil, probeNoEngine, fmt.Errorf("%w: status %d", ErrNoEngine, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, p.cfg.MaxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, probeSilent, err
	case int64(len(body)) > p.cfg.MaxAnswerBytes:
		return nil, probeNoEngine, fmt.Errorf("%w: more than %d bytes", ErrNoEngine, p.cfg.MaxAnswerBytes)
	}
	models, err := ParseModels(body)
	switch {
	case errors.Is(err, ErrNoModel):
		return nil, probeLoading, err
	case err != nil:
		return nil, probeNoEngine, err
	}
	return models, probeEngine, nil
}

// newProbeTransport returns a transport that dials what it was told to, for so
// long at the most, and nothing that fence forbids, whatever a name stands for at
// that moment.
func newProbeTransport(fence Fence, timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{
		Timeout: timeout,
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrForbidden, err)
			}
			return fence.CheckAddr(at.Addr())
		},
	}
	return &http.Transport{
		// No Proxy: the address itself is asked, as routers will.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &politeConn{Conn: conn, said: make(chan struct{})}, nil
		},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// politeConn hears nothing before something was said on it. Databases and mail
// servers greet who comes, of which net/http would write to the process's log, once
// for each of them and scan.
type politeConn struct {
	net.Conn

	once sync.Once
	said chan struct{}
}

func (c *politeConn) Read(p []byte) (int, error) {
	<-c.said
	return c.Conn.Read(p)
}

func (c *politeConn) Write(p []byte) (int, error) {
	c.once.Do(func() { close(c.said) })
	return c.Conn.Write(p)
}

func (c *politeConn) Close() error {
	c.once.Do(func() { close(c.said) })
	return c.Conn.Close()
}
