package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Reason is why a provider gave no list of models. The zero value is none.
type Reason uint8

// The reasons, with the word that stands for them in metrics.
const (
	ReasonUnreached    Reason = iota + 1 // "unreached": no connection, or it broke
	ReasonTimeout                        // "timeout": no whole answer in time
	ReasonAddress                        // "address": it must not be dialled; see Guard
	ReasonRedirect                       // "redirect": it sent us elsewhere, which is not followed
	ReasonUnauthorised                   // "unauthorised": 401 or 403
	ReasonStatus                         // "status": another status than 200
	ReasonTooLarge                       // "too_large": more than Config.AnswerBytes
	ReasonNoList                         // "no_list": 200, and no list of models
	ReasonCredential                     // "credential": ours cannot be opened

	reasons = int(ReasonCredential) + 1
)

// String is the reason's word.
func (r Reason) String() string {
	words := [reasons]string{"unset", "unreached", "timeout", "address", "redirect", "unauthorised", "status", "too_large", "no_list", "credential"}
	if int(r) < len(words) {
		return words[r]
	}
	return "unknown"
}

// ProbeError says why a provider gave no list of models, in words for operators. It
// repeats nothing of what was answered.
type ProbeError struct {
	Reason Reason
	text   string
	err    error
}

// Error is the text.
func (e *ProbeError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *ProbeError) Unwrap() error { return e.err }

// Target is what is asked.
type Target struct {
	BaseURL string // as ParseBaseURL writes it
	Vendor  string // empty: as OpenAI
	// Public allows the public Internet: for static and cloud ones.
	Public bool
	Secret Secret
}

// Prober asks providers what they serve. Its methods may be called concurrently.
type Prober struct {
	timeout         time.Duration
	limit           int64
	private, public *http.Client
}

// NewProber returns a Prober. It dials no address that cfg does not allow, checked
// when it is dialled, so that no answer of a name server leads elsewhere; it uses no
// proxy, follows no redirect and keeps no connection.
func NewProber(cfg Config) *Prober {
	guard := NewGuard(cfg.AllowCIDRs)
	return &Prober{timeout: cfg.ProbeTimeout, limit: cfg.AnswerBytes, private: client(guard, false), public: client(guard, true)}
}

func client(guard Guard, public bool) *http.Client {
	dialer := &net.Dialer{
		// A provider is asked once a minute: a connection would be closed before it is
		// used again.
		KeepAlive: -1,
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %q is no IP address", ErrAddress, address)
			}
			return guard.Check(at.Addr(), public)
		},
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
	}
}

// Ask returns the models that a provider lists, by name, or a *ProbeError. It takes no
// longer than Config.ProbeTimeout.
func (p *Prober) Ask(ctx context.Context, t Target) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	vendor, known := VendorNamed(t.Vendor)
	if !known {
		vendor = Vendor{ModelsPath: "/models"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.BaseURL+vendor.ModelsPath, nil)
	if err != nil {
		return nil, &ProbeError{Reason: ReasonAddress, text: "its address is no URL", err: ErrAddress}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "llmgw")
	vendor.Authorise(req.Header, t.Secret)
	c := p.private
	if t.Public {
		c = p.public
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, p.broken(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, &ProbeError{Reason: ReasonRedirect, text: fmt.Sprintf("it answered %d, a redirect, which is not followed; register where it leads to", resp.StatusCode)}
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, &ProbeError{Reason: ReasonUnauthorised, text: fmt.Sprintf("it answered %d: set its credential", resp.StatusCode)}
	case resp.StatusCode != http.StatusOK:
		return nil, &ProbeError{Reason: ReasonStatus, text: fmt.Sprintf("it answered %d", resp.StatusCode)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, p.limit+1))
	if err != nil {
		return nil, p.broken(ctx, err)
	}
	if int64(len(body)) > p.limit {
		return nil, &ProbeError{Reason: ReasonTooLarge, text: fmt.Sprintf("its answer is longer than %d bytes", p.limit)}
	}
	models, err := parseModels(body)
	if err != nil {
		return nil, &ProbeError{Reason: ReasonNoList, text: err.Error()}
	}
	return models, nil
}

// broken says why a request failed, without what the other side sent: net/http quotes a
// malformed head.
func (p *Prober) broken(ctx context.Context, err error) *ProbeError {
	if errors.Is(err, ErrAddress) {
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			if _, ok := inner.(*net.OpError); ok { //nolint:errorlint // the chain is walked here
				err = errors.Unwrap(inner)
			}
		}
		return &ProbeError{Reason: ReasonAddress, text: err.Error(), err: ErrAddress}
	}
	if timeout, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && timeout.Timeout() {
		return &ProbeError{Reason: ReasonTimeout, text: fmt.Sprintf("no answer within %v", p.timeout), err: context.DeadlineExceeded}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return &ProbeError{Reason: ReasonUnreached, text: "its host name is not found", err: dns}
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return &ProbeError{Reason: ReasonUnreached, text: errno.Error(), err: errno}
	}
	return &ProbeError{Reason: ReasonUnreached, text: "the connection broke, or it does not speak HTTP"}
}

// ask asks a provider as it is kept.
func (r *Registry) ask(ctx context.Context, p *storage.Provider) ([]Listed, error) {
	t := Target{BaseURL: p.BaseURL, Vendor: p.Vendor, Public: p.Kind != storage.ProviderDynamic}
	if p.Credential != nil {
		secret, err := r.Credential(p)
		if err != nil {
			return nil, &ProbeError{Reason: ReasonCredential, text: err.Error(), err: err}
		}
		t.Secret = secret
	}
	return r.prober.Ask(ctx, t)
}
