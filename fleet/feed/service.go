package feed

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// maxReportBytes bounds a request of a router's: a report of twice as many
// instances as a feed has.
const maxReportBytes = 4 << 20

// Access is how routers that come over a network prove themselves. With neither,
// every one is refused.
type Access struct {
	// Verify reports why a connection does not prove that it comes from the router of
	// that name. conn has a certificate; whether it was verified, its VerifiedChains
	// tell. It may be called at the same time for several, and must not block. Nil:
	// certificates prove nothing, and a token has to.
	Verify func(conn *tls.ConnectionState, router string) error
	// Token returns what routers show where there is no Verify, as a bearer token;
	// "": no router is let in. It may be called at the same time for several.
	Token func() string
}

// Handler returns the routers' service, and the path to mount it at. It needs a
// ResponseWriter that can set deadlines and flush. HTTP/1.1 will do as well as
// HTTP/2: what goes up are requests of their own.
func (p *Publisher) Handler(access Access) (path string, handler http.Handler) {
	// Without gzip: a snapshot goes to many routers at once, inside one network.
	path, handler = apipb.NewFeedServiceHandler(service{p, access}, connect.WithReadMaxBytes(maxReportBytes), connect.WithCompression("gzip", nil, nil))
	return path, withWire(handler)
}

// wire is what the service needs of the HTTP request below it.
type wire struct {
	control *http.ResponseController
	tls     *tls.ConnectionState
	remote  string
}

type wireKey struct{}

// withWire gives the service what connect hides of a request. A proxy that gathers
// answers is asked not to.
func withWire(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Accel-Buffering", "no")
		at := &wire{control: http.NewResponseController(w), tls: r.TLS, remote: r.RemoteAddr}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), wireKey{}, at)))
	})
}

// service is the protocol's face of a publisher.
type service struct {
	p      *Publisher
	access Access
}

// WatchFeed is a router's stream.
func (s service) WatchFeed(ctx context.Context, req *apipb.WatchFeedRequest, stream *connect.ServerStream[apipb.WatchFeedResponse]) error {
	at, err := s.at(ctx)
	if err != nil {
		return err
	}
	if err := s.proves(ctx, at, req.GetRouter()); err != nil {
		return s.p.refused(printable(req.GetRouter()), at.remote, err)
	}
	sess, err := s.p.attach(req, at.remote)
	if err != nil {
		return err
	}
	defer s.p.detach(sess)
	for {
		frame, err := sess.next(ctx)
		if err == nil {
			_ = at.control.SetWriteDeadline(time.Now().Add(s.p.cfg.WriteTimeout))
			err = stream.Send(frame)
		}
		if err != nil {
			// Nor must the last word wait for a router that does not read.
			_ = at.control.SetWriteDeadline(time.Now().Add(s.p.cfg.WriteTimeout))
			return bare(err)
		}
		_ = at.control.SetWriteDeadline(time.Time{})
	}
}

// ReportUse takes a router's report.
func (s service) ReportUse(ctx context.Context, req *apipb.ReportUseRequest) (*apipb.ReportUseResponse, error) {
	at, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	err = s.p.report(req, at.remote, func(router string) error { return s.proves(ctx, at, router) })
	if err != nil {
		return nil, err
	}
	return &apipb.ReportUseResponse{}, nil
}

func (s service) at(ctx context.Context) (*wire, error) {
	at, ok := ctx.Value(wireKey{}).(*wire)
	if !ok {
		return nil, connect.NewError(connect.CodeInternal, errors.New("feed: the service is not served by the handler of its publisher"))
	}
	return at, nil
}

// proves reports why a request does not prove that it comes from the router.
func (s service) proves(ctx context.Context, at *wire, router string) error {
	if s.access.Verify != nil {
		if at.tls == nil || len(at.tls.PeerCertificates) == 0 {
			return refuse(reasonUnauthenticated, fmt.Errorf("feed: router %.80q shows no certificate; give it one that llmgw ctl cert router makes", router))
		}
		if err := s.access.Verify(at.tls, router); err != nil {
			return refuse(reasonIdentity, fmt.Errorf("feed: the certificate of %q does not prove that this is router %.80q: %w", at.tls.PeerCertificates[0].Subject.CommonName, router, err))
		}
		return nil
	}
	want := ""
	if s.access.Token != nil {
		want = s.access.Token()
	}
	if want == "" {
		return refuse(reasonUnauthenticated, errors.New("feed: this control plane has neither certificates nor a token for routers, and lets none in, since the feed has the engines' secrets in it; set one of them"))
	}
	info, _ := connect.CallInfoForHandlerContext(ctx)
	got, isBearer := "", false
	if info != nil {
		got, isBearer = strings.CutPrefix(info.RequestHeader().Get("Authorization"), "Bearer ")
	}
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	if !isBearer || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return refuse(reasonUnauthenticated, fmt.Errorf("feed: router %.80q shows no token, or another one than this control plane has for routers; give both the same", router))
	}
	return nil
}
