package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// maxFrameBytes bounds a frame: a snapshot of everything that there may be, with
// room to spare for what is usual of its texts.
const maxFrameBytes = 64 << 20

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Remote is a control plane that is reached over a network, as a [Source].
type Remote struct {
	// Address is where it listens for agents and routers, as https://host:7443, or
	// http:// where the network itself is trusted.
	Address string
	// DialTLS opens connections to an https address, with the router's certificate
	// and h2 and http/1.1 as protocols, as those of package pki do. Required for
	// https.
	DialTLS DialFunc
	// Dial opens those to an http address. Nil: as net.Dialer.
	Dial DialFunc
	// Token returns what is shown as a bearer token, and is asked for each stream.
	// Nil, or "": none is.
	Token func() string
}

// NewRemote returns r as a source, or what is wrong with it. It dials nothing.
func NewRemote(r Remote) (Source, error) {
	u, err := url.Parse(r.Address)
	switch {
	case err != nil:
		return nil, errors.New("feed: address: is no URL; want e.g. https://control.example:7443")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("feed: address: %q has no scheme or no host; want e.g. https://control.example:7443", u.Redacted())
	case u.Port() == "":
		return nil, fmt.Errorf("feed: address: %q has no port; want e.g. %s://%s", u.Redacted(), u.Scheme, net.JoinHostPort(u.Hostname(), "7443"))
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("feed: address: %q has more than a scheme, a host and a port", u.Redacted())
	case u.Scheme == "https" && r.DialTLS == nil:
		return nil, fmt.Errorf("feed: address: %q needs a certificate for this router, and none is there; want one that llmgw ctl cert router makes", u.Redacted())
	}
	return &remote{r}, nil
}

type remote struct{ to Remote }

// Name implements [Source].
func (r *remote) Name() string { return r.to.Address }

// Open implements [Source]. It returns before anything was heard.
func (r *remote) Open(ctx context.Context, req *apipb.WatchFeedRequest) (Stream, error) {
	// One of its own for each stream, so that a connection that is dead is not used
	// again.
	transport := &http.Transport{DialContext: r.to.Dial, DialTLSContext: r.to.DialTLS, Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetHTTP1(true)
	transport.Protocols.SetHTTP2(true)
	s := &remoteStream{transport: transport}
	if r.to.Token != nil {
		s.token = r.to.Token()
	}
	s.client = apipb.NewFeedServiceClient(&http.Client{Transport: transport}, r.to.Address, connect.WithReadMaxBytes(maxFrameBytes), connect.WithAcceptCompression("gzip", nil, nil))
	var err error
	if s.stream, err = s.client.WatchFeed(s.prove(ctx), req); err != nil {
		transport.CloseIdleConnections()
		return nil, err
	}
	return s, nil
}

type remoteStream struct {
	transport *http.Transport
	client    apipb.FeedServiceClient
	stream    *connect.ServerStreamForClient[apipb.WatchFeedResponse]
	token     string
}

// prove adds the token to a call.
func (s *remoteStream) prove(ctx context.Context) context.Context {
	if s.token == "" {
		return ctx
	}
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer "+s.token)
	return ctx
}

// Receive implements [Stream].
func (s *remoteStream) Receive() (*apipb.WatchFeedResponse, error) {
	if s.stream.Receive() {
		return s.stream.Msg(), nil
	}
	if err := s.stream.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// Report implements [Stream].
func (s *remoteStream) Report(ctx context.Context, req *apipb.ReportUseRequest) error {
	_, err := s.client.ReportUse(s.prove(ctx), req)
	return err
}

// Close implements [Stream].
func (s *remoteStream) Close() {
	_ = s.stream.Close()
	s.transport.CloseIdleConnections()
}
