package discover

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Registration is what is said of one engine.
type Registration struct {
	// APIBase is the address with the /v1 below which its API is.
	APIBase    string `json:"api_base"`
	Node       string `json:"node,omitempty"`
	Name       string `json:"name,omitempty"`
	Engine     string `json:"engine,omitempty"`
	TTLSeconds int    `json:"ttl_seconds"`
}

// Registered is what a control plane answers. Of an address that an operator
// added, Kind is static and Leased false, and nothing has changed.
type Registered struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Leased   bool   `json:"leased"`
	Degraded bool   `json:"degraded"`
	Warning  string `json:"warning,omitempty"`
}

// Registrar takes registrations. Register may be called concurrently, blocks
// until ctx is done at the most, and fails with a [*RegisterError].
type Registrar interface {
	Register(ctx context.Context, r Registration) (Registered, error)
}

// Classes of a [*RegisterError].
var (
	// ErrUnauthorized means that there is no token, or that the control plane does not
	// know it, or does not any more (401).
	ErrUnauthorized = errors.New("discover: no token that the control plane knows")
	// ErrRefused means that the control plane does not want this registration, and
	// will not want it the next time either, such as that of a forbidden address.
	ErrRefused = errors.New("discover: the control plane refuses the registration")
	// ErrUnavailable means that it could not be asked, or could not answer.
	ErrUnavailable = errors.New("discover: the control plane cannot be reached")
)

// RegisterError is why a registration failed.
type RegisterError struct {
	// Class is ErrUnauthorized, ErrRefused or ErrUnavailable.
	Class error
	// Status is the answer's; 0 without one.
	Status int
	// RetryAfter is how long the control plane wants to be left alone; 0 if it does
	// not say.
	RetryAfter time.Duration
	// Cause says more.
	Cause error
}

func (e *RegisterError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%v: status %d: %v", e.Class, e.Status, e.Cause)
	}
	return fmt.Sprintf("%v: %v", e.Class, e.Cause)
}

// Unwrap returns the class and the cause.
func (e *RegisterError) Unwrap() []error { return []error{e.Class, e.Cause} }

// ClientConfig is where the control plane is. There is no way not to verify it.
type ClientConfig struct {
	// ControlURL is where the control plane is, e.g. https://control.example:7443.
	// http:// is taken for the loopback alone: a token is not sent in the clear.
	ControlURL string `yaml:"control_url"`
	// TokenFile holds the key, and is read each time. One of TokenFile and Token
	// must be set.
	TokenFile string `yaml:"token_file"`
	// Token is the key itself, as from an environment.
	Token string `yaml:"-"`
	// CAFile holds the certificates, as PEM, of which one must have signed the control
	// plane's; it is read anew when a connection is made. Default "": the system's.
	CAFile string `yaml:"ca_file"`
}

// Validate returns every problem of c, joined, each beginning with its key.
func (c ClientConfig) Validate() error {
	var errs []error
	if err := checkControlURL(c.ControlURL); err != nil {
		errs = append(errs, fmt.Errorf("control_url: %w", err))
	}
	if (c.TokenFile == "") == (c.Token == "") {
		errs = append(errs, errors.New("token_file: want a file with the key, or the key itself, and not both"))
	}
	return errors.Join(errs...)
}

func checkControlURL(text string) error {
	base, err := BaseURL(text)
	if err != nil {
		return fmt.Errorf("%w; want e.g. https://control.example:7443", err)
	}
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := (err == nil && ip.IsLoopback()) || u.Hostname() == "localhost"
	if u.Scheme == "http" && !loopback {
		return fmt.Errorf("%s would have the token sent in the clear; want https://", base)
	}
	return nil
}

// ClientDeps are a client's collaborators.
type ClientDeps struct {
	// Transport is used instead of one that verifies by ClientConfig.CAFile; nil
	// means that one.
	Transport http.RoundTripper
}

// Client registers at a control plane. It is safe for concurrent use.
type Client struct {
	cfg       ClientConfig
	url       string
	transport http.RoundTripper // nil: of its own

	mu  sync.Mutex
	pem []byte          // what own was made of; guarded by mu
	own *http.Transport // guarded by mu
}

// NewClient validates cfg. It reads and dials nothing.
func NewClient(cfg ClientConfig, deps ClientDeps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base, err := BaseURL(cfg.ControlURL)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, url: base + "/admin/providers/register", transport: deps.Transport}, nil
}

// Close lets go of idle connections. The client may be used on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

const maxTokenBytes, maxRegisteredBytes = 4096, 64 << 10

// Register says that an engine is there, or that it still is.
func (c *Client) Register(ctx context.Context, r Registration) (Registered, error) {
	fail := func(class error, status int, cause error) (Registered, error) {
		return Registered{}, &RegisterError{Class: class, Status: status, Cause: cause}
	}
	token, err := c.token()
	if err != nil {
		return fail(ErrUnauthorized, 0, err)
	}
	transport, err := c.roundTripper()
	if err != nil {
		return fail(ErrUnavailable, 0, err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fail(ErrRefused, 0, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fail(ErrRefused, 0, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "llmgw-discover")
	client := &http.Client{
		Transport: transport,
		// Elsewhere the token has no business.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return fail(ErrUnavailable, 0, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is wanted of it
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxRegisteredBytes+1))
	switch {
	case err != nil:
		return fail(ErrUnavailable, resp.StatusCode, err)
	case len(answer) > maxRegisteredBytes:
		return fail(ErrUnavailable, resp.StatusCode, fmt.Errorf("an answer of more than %d bytes", maxRegisteredBytes))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return Registered{}, &RegisterError{
			Class: classOf(resp.StatusCode), Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header), Cause: errors.New(told(answer)),
		}
	}
	var out Registered
	if err := json.Unmarshal(answer, &out); err != nil || out.Kind == "" {
		return fail(ErrUnavailable, resp.StatusCode, errors.New("the answer is none of a control plane"))
	}
	out.Warning = printable(out.Warning)
	return out, nil
}

func classOf(status int) error {
	switch {
	case status == http.StatusUnauthorized:
		return ErrUnauthorized
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status < 400:
		return ErrUnavailable
	}
	return ErrRefused
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// told is what an answer says in words.
func told(answer []byte) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &body); err != nil || body.Error.Message == "" {
		return "it says nothing of why"
	}
	return printable(body.Error.Message)
}

// printable makes text of a stranger fit for a log.
func printable(text string) string {
	const most = 300
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// token returns the key, of the file as it stands.
func (c *Client) token() (string, error) {
	text := c.cfg.Token
	if c.cfg.TokenFile != "" {
		f, err := os.Open(c.cfg.TokenFile)
		if err != nil {
			return "", fmt.Errorf("token_file: %w", err)
		}
		defer func() { _ = f.Close() }() // it was read
		b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
		if err != nil {
			return "", fmt.Errorf("token_file: %w", err)
		}
		text = string(b)
	}
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxTokenBytes || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token_file: %s holds no key; want one line", c.cfg.TokenFile)
	}
	return text, nil
}

// roundTripper returns the transport, a new one when the CA has changed.
func (c *Client) roundTripper() (http.RoundTripper, error) {
	if c.transport != nil {
		return c.transport, nil
	}
	var pem []byte
	if c.cfg.CAFile != "" {
		var err error
		if pem, err = os.ReadFile(c.cfg.CAFile); err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own != nil && bytes.Equal(pem, c.pem) {
		return c.own, nil
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cfg.CAFile != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate", c.cfg.CAFile)
		}
	}
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	c.pem = pem
	c.own = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        trust,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return c.own, nil
}
