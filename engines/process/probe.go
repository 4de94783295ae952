package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// answer is what a probe learnt.
type answer struct {
	ready bool
	spoke bool   // somebody answered, whatever it was
	text  string // for people
}

// bodyBytes bounds how much of an answer is looked at.
const bodyBytes = 1 << 20

// newClient returns a client for probes: no proxy stands between a launcher and
// its own machine, a redirect is no answer of the engine's, and no connection
// outlives its question.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       (&net.Dialer{}).DialContext,
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// hosts returns where to ask for an engine that binds address, in order. A
// process beside it may listen on the loopback alone.
func hosts(address string) []string {
	const loopback = "127.0.0.1"
	ip, err := netip.ParseAddr(address)
	switch {
	case address == "" || address == loopback || err == nil && ip == netip.IPv4Unspecified():
		return []string{loopback}
	case err == nil && ip == netip.IPv6Unspecified():
		return []string{loopback, "::1"}
	}
	return []string{address, loopback}
}

// ask asks q once on each host until one answers.
func (r *Runner) ask(ctx context.Context, q engines.Probe, address, secret string) answer {
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	var a answer
	for _, host := range hosts(address) {
		if a = r.askHost(ctx, q, host, secret); a.spoke {
			return a
		}
	}
	return a
}

func (r *Runner) askHost(ctx context.Context, q engines.Probe, host, secret string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(q.Port))+q.Path, nil)
	if err != nil {
		return answer{text: "none: " + err.Error()}
	}
	if q.Keyed && secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	resp, err := r.client.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer{text: "connection refused"}
	case errors.Is(err, context.DeadlineExceeded):
		return answer{text: fmt.Sprintf("none within %v", q.Timeout)}
	case err != nil:
		return answer{text: "none: " + err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyBytes))
	text := "status " + strconv.Itoa(resp.StatusCode)
	switch {
	case err != nil:
		return answer{spoke: true, text: text + ", and its body broke off"}
	case resp.StatusCode == http.StatusUnauthorized && q.Keyed:
		return answer{spoke: true, text: text + ": what listens there does not know the shard's secret"}
	case resp.StatusCode != http.StatusOK:
		return answer{spoke: true, text: text}
	case q.Contains != "" && !bytes.Contains(body, []byte(q.Contains)):
		return answer{spoke: true, text: fmt.Sprintf("%s without %q in it", text, q.Contains)}
	}
	return answer{spoke: true, ready: true, text: text}
}

// probes asks again and again, a pause after each answer, until ctx is done.
func probes(ctx context.Context, every time.Duration, ask func(context.Context) answer, tell chan<- answer) {
	for {
		a := ask(ctx)
		select {
		case tell <- a:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
	}
}
