package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/pki"
)

func newAuthority(t testing.TB, cluster string) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority(cluster, time.Now(), pki.DefaultAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue issues at now less ago.
func issue(t testing.TB, a *pki.Authority, ago time.Duration, req pki.Request) pki.Pair {
	t.Helper()
	if req.Lifetime == 0 {
		req.Lifetime = pki.DefaultLifetime
	}
	pair, err := a.Issue(time.Now().Add(-ago), req)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func node(id string) pki.Request   { return pki.Request{Role: pki.RoleNode, ID: id} }
func router(id string) pki.Request { return pki.Request{Role: pki.RoleRouter, ID: id} }
func server(id string, hosts ...string) pki.Request {
	return pki.Request{Role: pki.RoleServer, ID: id, Hosts: hosts}
}

func TestRoot(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, "prod")
	c := a.Certificate()
	if !c.IsCA || c.MaxPathLen != 0 || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign {
		t.Errorf("authority %v, path length %d, usage %b; want one that signs leaves only", c.IsCA, c.MaxPathLen, c.KeyUsage)
	}
	if c.NotBefore.After(now.Add(-pki.Skew+2*time.Second)) || c.NotAfter.Before(now.AddDate(9, 11, 0)) {
		t.Errorf("valid from %v to %v; want ten years and a skew", c.NotBefore, c.NotAfter)
	}
	if a.Cluster() != "prod" || c.Subject.String() == newAuthority(t, "prod").Certificate().Subject.String() {
		t.Errorf("cluster %q, name %q; want prod, and a name that no other root has", a.Cluster(), c.Subject)
	}
	for _, lifetime := range []time.Duration{0, -1, time.Hour, 31 * 365 * 24 * time.Hour} {
		if _, err := pki.NewAuthority("prod", now, lifetime); !errors.Is(err, pki.ErrLifetime) {
			t.Errorf("lifetime %v: error %v, want ErrLifetime", lifetime, err)
		}
	}
	if _, err := pki.NewAuthority("Prod", now, pki.DefaultAuthorityLifetime); !errors.Is(err, pki.ErrName) {
		t.Errorf("error %v, want ErrName", err)
	}
}

func TestIssue(t *testing.T) {
	a := newAuthority(t, "prod")
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	tests := []struct {
		name  string
		req   pki.Request
		uri   string
		usage []x509.ExtKeyUsage
		hosts []string
	}{
		{"node", node("gpu-17"), "spiffe://prod/node/gpu-17", client, nil},
		{"router", router("edge"), "spiffe://prod/router/edge", client, nil},
		{
			"server", server("cp-1", "GW.example", "10.0.0.5", "2001:db8::1", "gw.example"), "spiffe://prod/server/cp-1", both,
			[]string{"gw.example", "10.0.0.5", "2001:db8::1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pair := issue(t, a, 0, tt.req)
			c := pair.Leaf
			if got := c.URIs[0].String(); got != tt.uri || len(c.URIs) != 1 || c.Subject.CommonName != tt.req.ID {
				t.Errorf("URI %q of %d, common name %q; want %q and the id", got, len(c.URIs), c.Subject.CommonName, tt.uri)
			}
			if !slices.Equal(c.ExtKeyUsage, tt.usage) || c.KeyUsage != x509.KeyUsageDigitalSignature || c.IsCA {
				t.Errorf("usages %v and %b, authority %v", c.ExtKeyUsage, c.KeyUsage, c.IsCA)
			}
			if diff := cmp.Diff(tt.hosts, pki.Describe(c).Hosts); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
			if bits := c.SerialNumber.BitLen(); bits > 128 || bits <= 120 || c.SerialNumber.Sign() <= 0 {
				t.Errorf("serial of %d bits, want 128 random ones", bits)
			}
			if public, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || public.Curve.Params().Name != "P-256" {
				t.Errorf("key %T, want P-256", c.PublicKey)
			}
			if identity, err := pki.IdentityOf(c); err != nil || identity != (pki.Identity{Cluster: "prod", Role: tt.req.Role, ID: tt.req.ID}) {
				t.Errorf("identity %v, %v", identity, err)
			}
		})
	}
}

func TestIssueRefuses(t *testing.T) {
	a := newAuthority(t, "prod")
	day := 24 * time.Hour
	tests := []struct {
		name string
		at   time.Duration // after now
		req  pki.Request
		want error
		text string
	}{
		{"a server without names", 0, server("cp-1"), pki.ErrNoHosts, "every name and address"},
		{"a node with a name", 0, pki.Request{Role: pki.RoleNode, ID: "gpu-1", Hosts: []string{"gw.example"}}, pki.ErrName, "a node is not dialled"},
		{"a wildcard", 0, server("cp-1", "*.example"), pki.ErrName, "wildcard"},
		{"an id", 0, node("GPU-1"), pki.ErrName, "capitals"},
		{"no role", 0, pki.Request{ID: "x"}, nil, `"none" is no role`},
		{"a role that there is not", 0, pki.Request{Role: 17, ID: "x"}, nil, "is no role"},
		{"a day short", 0, pki.Request{Role: pki.RoleNode, ID: "gpu-1", Lifetime: time.Second}, pki.ErrLifetime, "want 1m0s to 825d"},
		{"for ever", 0, pki.Request{Role: pki.RoleNode, ID: "gpu-1", Lifetime: 900 * day}, pki.ErrLifetime, "900d is out of range"},
		{"longer than the authority", 9*365*day + 200*day, node("gpu-1"), pki.ErrLifetime, "longer than the authority itself has left"},
		{"by an authority that is over", 11 * 365 * day, node("gpu-1"), pki.ErrLifetime, "the authority expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.req.Lifetime == 0 {
				tt.req.Lifetime = pki.DefaultLifetime
			}
			_, err := a.Issue(time.Now().Add(tt.at), tt.req)
			if err == nil || (tt.want != nil && !errors.Is(err, tt.want)) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v; want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestRenew(t *testing.T) {
	a := newAuthority(t, "prod")
	req := server("cp-1", "gw.example", "10.0.0.5")
	req.Lifetime = 90 * 24 * time.Hour
	old := issue(t, a, 200*24*time.Hour, req) // it has expired
	pair, err := a.Renew(time.Now(), old.Leaf, 0)
	if err != nil {
		t.Fatal(err)
	}
	was, is := pki.Describe(old.Leaf), pki.Describe(pair.Leaf)
	if is.NotAfter.Sub(is.NotBefore) != was.NotAfter.Sub(was.NotBefore) || !is.NotAfter.After(time.Now()) {
		t.Errorf("valid from %v to %v, want as long as %v to %v, from now on", is.NotBefore, is.NotAfter, was.NotBefore, was.NotAfter)
	}
	if is.Serial == was.Serial || bytes.Equal(pair.Key, old.Key) {
		t.Error("the serial or the key is the old one")
	}
	was.Serial, was.Fingerprint, was.NotBefore, was.NotAfter = is.Serial, is.Fingerprint, is.NotBefore, is.NotAfter
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("renewed (-old +new):\n%s", diff)
	}
	if _, err := newAuthority(t, "prod").Renew(time.Now(), old.Leaf, 0); !errors.Is(err, pki.ErrNotOurs) {
		t.Errorf("another authority: error %v, want ErrNotOurs", err)
	}
	if _, err := a.Renew(time.Now(), a.Certificate(), 0); !errors.Is(err, pki.ErrNoIdentity) || !strings.Contains(err.Error(), "the authority itself") {
		t.Errorf("the authority itself: error %v, want ErrNoIdentity", err)
	}
}

// An authority that was written down issues as the one that made it.
func TestParseAuthority(t *testing.T) {
	a := newAuthority(t, "prod")
	own, err := a.Pair()
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority(t, "prod").Pair()
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, a, 0, node("gpu-1"))
	again, err := pki.ParseAuthority(slices.Concat(other.Cert, own.Cert), own.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Issued(issue(t, again, 0, node("gpu-2")).Leaf); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		cert, key []byte
		want      error
	}{
		"another's key":    {own.Cert, other.Key, pki.ErrKeyMismatch},
		"a leaf":           {leaf.Cert, leaf.Key, pki.ErrNoIdentity},
		"no key":           {own.Cert, own.Cert, pki.ErrPEM},
		"no certificate":   {nil, own.Key, pki.ErrPEM},
		"a key beside it":  {slices.Concat(own.Cert, own.Key), own.Key, pki.ErrPEM},
		"a damaged one":    {slices.Concat(own.Cert, bytes.Replace(other.Cert, []byte("MII"), []byte("M!!"), 1)), own.Key, pki.ErrPEM},
		"one cut off":      {slices.Concat(own.Cert, other.Cert[:len(other.Cert)/2]), own.Key, pki.ErrPEM},
		"an encrypted key": {own.Cert, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}), pki.ErrPEM},
	} {
		if _, err := pki.ParseAuthority(tt.cert, tt.key); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", name, err, tt.want)
		}
	}
}

// Whoever claims anything but the certificate's own name is refused, and told
// both names.
func TestCheckNodeIsExact(t *testing.T) {
	a := newAuthority(t, "prod")
	id := rapid.StringMatching(`[a-z0-9]{1,8}([.-][a-z0-9]{1,8}){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		cn := id.Draw(t, "certificate")
		pair, err := a.Issue(time.Now(), pki.Request{Role: pki.RoleNode, ID: cn, Lifetime: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		claimed := rapid.OneOf(
			rapid.Just(cn), id, rapid.String(),
			rapid.SampledFrom([]string{"", "*", strings.ToUpper(cn), cn + " ", cn + "\x00", cn + ".", cn[:len(cn)-1], "*" + cn}),
		).Draw(t, "claimed")
		state := tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{pair.Leaf},
			VerifiedChains:   [][]*x509.Certificate{{pair.Leaf, a.Certificate()}},
		}
		identity, err := pki.CheckNode(state, claimed)
		if (err == nil) != (claimed == cn) {
			t.Fatalf("certificate %q, claimed %q: %v, %v", cn, claimed, identity, err)
		}
		if e, ok := errors.AsType[*pki.NodeError](err); err != nil && (!ok || e.Claimed != claimed || e.CommonName != cn || !errors.Is(err, pki.ErrWrongNode)) {
			t.Fatalf("error %#v; want both names and ErrWrongNode", err)
		}
	})
}

func TestCheckNodeRefuses(t *testing.T) {
	prod, test := newAuthority(t, "prod"), newAuthority(t, "test")
	chain := func(a *pki.Authority, leaf *x509.Certificate) tls.ConnectionState {
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, a.Certificate()}}}
	}
	unverified := chain(prod, issue(t, prod, 0, node("gpu-1")).Leaf)
	unverified.VerifiedChains = nil
	tests := []struct {
		name  string
		state tls.ConnectionState
		want  error
		cn    string
	}{
		{"no certificate", tls.ConnectionState{}, pki.ErrNoCertificate, ""},
		{"one that was not verified", unverified, pki.ErrNoCertificate, "gpu-1"},
		{"a server's", chain(prod, issue(t, prod, 0, server("gpu-1", "gpu-1")).Leaf), pki.ErrWrongRole, "gpu-1"},
		{"a router's", chain(prod, issue(t, prod, 0, router("gpu-1")).Leaf), pki.ErrWrongRole, "gpu-1"},
		{"the authority's", chain(prod, prod.Certificate()), pki.ErrNoIdentity, prod.Certificate().Subject.CommonName},
		{"another cluster's authority", chain(test, issue(t, prod, 0, node("gpu-1")).Leaf), pki.ErrWrongCluster, "gpu-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pki.CheckNode(tt.state, "gpu-1")
			e, ok := errors.AsType[*pki.NodeError](err)
			if !ok || !errors.Is(err, tt.want) || e.CommonName != tt.cn || !strings.Contains(err.Error(), `node "gpu-1" is claimed`) {
				t.Errorf("error %v, want %v with %q", err, tt.want, tt.cn)
			}
		})
	}
}

// A router proves its own name, with a certificate of its role or a server's, and
// a node proves none.
func TestCheckRouter(t *testing.T) {
	prod, test := newAuthority(t, "prod"), newAuthority(t, "test")
	chain := func(a *pki.Authority, leaf *x509.Certificate) tls.ConnectionState {
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, a.Certificate()}}}
	}
	router := func(id string) pki.Request { return pki.Request{Role: pki.RoleRouter, ID: id} }
	for _, tt := range []struct {
		name  string
		state tls.ConnectionState
		want  error
	}{
		{"its own", chain(prod, issue(t, prod, 0, router("edge-1")).Leaf), nil},
		{"a server's", chain(prod, issue(t, prod, 0, server("edge-1", "edge-1")).Leaf), nil},
		{"a node's", chain(prod, issue(t, prod, 0, node("edge-1")).Leaf), pki.ErrWrongRole},
		{"another router's", chain(prod, issue(t, prod, 0, router("edge-11")).Leaf), pki.ErrWrongRouter},
		{"of another cluster's authority", chain(test, issue(t, prod, 0, router("edge-1")).Leaf), pki.ErrWrongCluster},
		{"none", tls.ConnectionState{}, pki.ErrNoCertificate},
	} {
		identity, err := pki.CheckRouter(tt.state, "edge-1")
		if !errors.Is(err, tt.want) || (err == nil) != (identity.ID == "edge-1") {
			t.Errorf("%s: %v, %v; want %v", tt.name, identity, err, tt.want)
		}
		// Nor is a router's certificate one of a node.
		if _, err := pki.CheckNode(tt.state, "edge-1"); (err == nil) != (tt.name == "a node's") {
			t.Errorf("%s as that of a node: %v", tt.name, err)
		}
	}
}
