package feed_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/fleet/pki"
)

// served serves a publisher's handler at a listener until the test ends.
func served(t *testing.T, p *feed.Publisher, access feed.Access, l net.Listener) (end func()) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(p.Handler(access))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	return runs(t, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = s.Close() })
		defer stop()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

func token(s string) func() string { return func() string { return s } }

func remote(t *testing.T, r feed.Remote) feed.Source {
	t.Helper()
	s, err := feed.NewRemote(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Over HTTP a router gets what it gets in one process, and a server that is silent
// or gone is left for the next.
func TestOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		var ends []func()
		var sources []feed.Source
		for _, address := range []string{"a:7443", "b:7443"} {
			l, err := network.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, served(t, p, feed.Access{Token: token("good")}, l))
			sources = append(sources, remote(t, feed.Remote{Address: "http://" + address, Dial: network.Dial, Token: token("good")}))
		}
		g := follow(t, config("r1"), feed.Deps{Sources: sources, Software: "v1"})
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		time.Sleep(time.Minute)
		g.works(entry("m", 1), 2)
		set(t, p, nil, entry("m", 1), entry("m", 2))
		holds(t, g, at(2), []string{"m"}, entry("m", 1), entry("m", 2))
		wantUse(t, "over HTTP", p, entry("m", 1), engines.Known(2), false)
		if r := p.Routers(); len(r) != 1 || r[0].Software != "v1" || r[0].Applied != at(2) || !r[0].Connected {
			t.Errorf("%+v", r)
		}
		if s := g.follower.Stats(); s.Connected != "http://a:7443" {
			t.Errorf("%+v", s)
		}
		ends[0]()
		time.Sleep(5 * time.Second)
		set(t, p, nil, entry("m", 3))
		holds(t, g, at(3), []string{"m"}, entry("m", 3))
		if s := g.follower.Stats(); s.Connected != "http://b:7443" {
			t.Errorf("%+v", s)
		}
		g.works(entry("m", 1), 0)
		g.end()
		synctest.Wait()
		if r := p.Routers(); len(r) != 0 {
			t.Errorf("%+v; it said goodbye", r)
		}
	})
}

// Without TLS a token is asked for. Who has none, or another one, gets nothing and
// is told what to do; where none is set nobody gets anything.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		for address, access := range map[string]feed.Access{"with:1": {Token: token("good")}, "empty:1": {Token: token("")}, "none:1": {}} {
			l, err := network.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			served(t, p, access, l)
		}
		for _, tt := range []struct{ address, token, want string }{
			{"with:1", "", "shows no token, or another one"},
			{"with:1", "bad", "shows no token, or another one"},
			{"empty:1", "", "lets none in"},
			{"none:1", "good", "lets none in"},
			{"with:1", "good", ""},
		} {
			s, err := remote(t, feed.Remote{Address: "http://" + tt.address, Dial: network.Dial, Token: token(tt.token)}).Open(t.Context(), request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r1", Run: "run"}.wire())
			if err != nil {
				t.Fatal(err)
			}
			frame, err := s.Receive()
			switch {
			case tt.want == "":
				if err != nil || frame.GetWelcome() == nil {
					t.Errorf("%v: %v, %v", tt, frame, err)
				}
			case connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v: %v", tt, err)
			}
			// Nor does a report without it count, whoever's session it names.
			session := frame.GetWelcome().GetSession()
			if session != "" {
				other := remote(t, feed.Remote{Address: "http://with:1", Dial: network.Dial})
				if o, err := other.Open(t.Context(), request{}.wire()); err == nil {
					if err := o.Report(t.Context(), &apipb.ReportUseRequest{Session: session, Number: 1}); connect.CodeOf(err) != connect.CodeUnauthenticated {
						t.Errorf("a report without the token: %v", err)
					}
					o.Close()
				}
			}
			s.Close()
		}
	})
}

// With TLS a router's certificate is asked for, and a node's is none: it is said to
// both, and the router asks less and less often.
func TestCertificates(t *testing.T) {
	authority, err := pki.NewAuthority("c", time.Now(), pki.MinAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
	set(t, p, []string{"m"}, entry("m", 1))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := certificate(t, authority, pki.Request{Role: pki.RoleServer, ID: "cp", Hosts: []string{"127.0.0.1"}})
	tlsConfig, err := server.Server(pki.ServerOptions{Clients: pki.ClientsRequired, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	var overHTTP2 atomic.Bool
	served(t, p, feed.Access{Verify: func(conn *tls.ConnectionState, router string) error {
		overHTTP2.Store(conn.NegotiatedProtocol == "h2")
		_, err := pki.CheckRouter(*conn, router)
		return err
	}}, tls.NewListener(l, tlsConfig))

	source := func(req pki.Request) feed.Source {
		cert := certificate(t, authority, req)
		return remote(t, feed.Remote{Address: "https://" + l.Addr().String(), DialTLS: feed.DialFunc(cert.DialTLS(nil, "h2", "http/1.1"))})
	}
	for _, tt := range []struct {
		name string
		req  pki.Request
		want string
	}{
		{"a node's", pki.Request{Role: pki.RoleNode, ID: "r1"}, "pki: wrong role: it is that of a node; issue one with llmgw ctl cert router"},
		{"another router's", pki.Request{Role: pki.RoleRouter, ID: "r2"}, `pki: wrong router: it is that of "r2"`},
		{"its own", pki.Request{Role: pki.RoleRouter, ID: "r1"}, ""},
		{"a server's, which stands by", pki.Request{Role: pki.RoleServer, ID: "r1", Hosts: []string{"r1"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := source(tt.req).Open(ctx, request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r1", Run: "run"}.wire())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			frame, err := s.Receive()
			if tt.want == "" {
				if err != nil || frame.GetWelcome() == nil {
					t.Fatalf("%v, %v", frame, err)
				}
				if err := s.Report(ctx, &apipb.ReportUseRequest{Session: frame.GetWelcome().GetSession(), Number: 1}); err != nil {
					t.Fatal(err)
				}
				return
			}
			if connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, %v; want %q", frame, err, tt.want)
			}
		})
	}

	// The whole way: a router follows over TLS.
	g := follow(t, config("edge-1"), feed.Deps{Sources: []feed.Source{source(pki.Request{Role: pki.RoleRouter, ID: "edge-1"})}})
	for n := 1; n <= 3; n++ {
		for s, changed := g.follower.State(); len(s.Entries) != n; s, changed = g.follower.State() {
			select {
			case <-changed:
			case <-time.After(time.Minute):
				t.Fatal("it does not follow")
			}
		}
		set(t, p, nil, []feed.Entry{entry("m", 1), entry("m", 2), entry("m", 3)}[:min(n+1, 3)]...)
	}
	if !overHTTP2.Load() {
		t.Error("that was not HTTP/2")
	}
}

// certificate issues one, and reads it as a program does.
func certificate(t *testing.T, a *pki.Authority, req pki.Request) *pki.Reloader {
	t.Helper()
	req.Lifetime = time.Hour
	pair, err := a.Issue(time.Now(), req)
	if err != nil {
		t.Fatal(err)
	}
	root, err := a.Pair()
	if err != nil {
		t.Fatal(err)
	}
	cfg := pki.DefaultConfig()
	dir := t.TempDir()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
	for name, data := range map[string][]byte{cfg.CertFile: pair.Cert, cfg.KeyFile: pair.Key, cfg.CAFile: root.Cert} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := pki.NewReloader(cfg, pki.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(); err != nil {
		t.Fatal(err)
	}
	return r
}

// A router that reads nothing of its stream has it ended, and holds up nobody.
func TestStuckRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		cfg := feed.DefaultPublisherConfig()
		p := publisher(t, cfg, feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		l, err := network.Listen("cp:1")
		if err != nil {
			t.Fatal(err)
		}
		served(t, p, feed.Access{Token: token("good")}, l)
		conn, err := network.Dial(t.Context(), "tcp", "cp:1")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := `{"protocolLeast":1,"protocolMost":1,"router":"stuck","run":"1"}`
		framed := string([]byte{0, 0, 0, 0, byte(len(body))}) + body
		head := "POST /llmgw.api.v1.FeedService/WatchFeed HTTP/1.1\r\nHost: cp\r\nAuthorization: Bearer good\r\nContent-Type: application/connect+json\r\nContent-Length: " +
			strconv.Itoa(len(framed)) + "\r\n\r\n"
		if _, err := io.WriteString(conn, head+framed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // a pipe has no buffer: the first write waits
		if r := p.Routers(); len(r) != 1 || !r[0].Connected {
			t.Fatalf("%+v", r)
		}
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		time.Sleep(time.Second)
		set(t, p, nil, entry("m", 2))
		holds(t, g, at(2), []string{"m"}, entry("m", 2))
		time.Sleep(2*cfg.WriteTimeout + time.Second)
		synctest.Wait()
		for _, r := range p.Routers() {
			if r.Name == "stuck" && r.Connected {
				t.Errorf("%+v", r)
			}
		}
	})
}

// Addresses say what is wrong with them.
func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://cp:7443": "needs a certificate for this router", "cp:7443": "has no scheme or no host", "http://cp": "has no port; want e.g. http://cp:7443",
		"http://cp:1/x": "has more than", "http://u:p@cp:1": "has more than", "http://%zz": "is no URL", "http://cp:1": "",
	} {
		_, err := feed.NewRemote(feed.Remote{Address: address})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Everything that is shown of an entry may be logged: its secret is not in it.
func TestSecretsAreNotPrinted(t *testing.T) {
	var log lines
	e := entry("m", 1)
	e.Secret = "hush-hush"
	log.logger().Info("an entry", "entry", e, "secret", e.Secret, "state", &feed.State{Entries: []feed.Entry{e}})
	if got := log.String(); strings.Contains(got, "hush") || !strings.Contains(got, "[redacted]") {
		t.Error(got)
	}
}
