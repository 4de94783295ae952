package pki_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/pki"
)

func TestExamine(t *testing.T) {
	const year = 365 * 24 * time.Hour
	prod, other := newAuthority(t, "prod"), newAuthority(t, "prod")
	roots := []*x509.Certificate{prod.Certificate()}
	fine := issue(t, prod, 0, server("cp-1", "gw.example", "10.0.0.5"))
	short := server("cp-1", "gw.example")
	short.Lifetime = time.Hour
	tests := []struct {
		name string
		pair pki.Pair
		at   time.Duration // after now
		want pki.Expect
		got  []pki.FaultCode
	}{
		{"a server", fine, 0, pki.Expect{Roots: roots, Role: pki.RoleServer, Hosts: []string{"gw.example", "10.0.0.5"}, Left: 30 * 24 * time.Hour}, nil},
		{"a node", issue(t, prod, 0, node("gpu-1")), 0, pki.Expect{Roots: roots, Role: pki.RoleNode}, nil},
		{"with both roots", fine, 0, pki.Expect{Roots: append(slices.Clone(roots), other.Certificate())}, nil},
		{"expired", fine, year + time.Minute, pki.Expect{Roots: roots}, []pki.FaultCode{pki.FaultExpired}},
		{"a clock that is behind", fine, -time.Hour, pki.Expect{Roots: roots}, []pki.FaultCode{pki.FaultNotYetValid}},
		{"soon", issue(t, prod, 0, short), 0, pki.Expect{Left: 2 * time.Hour}, []pki.FaultCode{pki.FaultExpiresSoon}},
		{"another authority", fine, 0, pki.Expect{Roots: []*x509.Certificate{other.Certificate()}}, []pki.FaultCode{pki.FaultUnknownCA}},
		{"another role", fine, 0, pki.Expect{Role: pki.RoleRouter}, []pki.FaultCode{pki.FaultRole}},
		{"another name", fine, 0, pki.Expect{Hosts: []string{"10.0.0.6", "gw.example", "cp-1"}}, []pki.FaultCode{pki.FaultHost, pki.FaultHost}},
		{"no identity", foreign(t, prod, "https://prod/node/gpu-1", "gpu-1", ""), 0, pki.Expect{Roots: roots, Role: pki.RoleNode}, []pki.FaultCode{pki.FaultRole}},
		{"a cluster that is not the authority's", foreign(t, prod, "spiffe://test/node/gpu-1", "gpu-1", ""), 0, pki.Expect{Roots: roots}, []pki.FaultCode{pki.FaultWrongCluster}},
		{"a server without names", foreign(t, prod, "spiffe://prod/server/cp-1", "cp-1", ""), 0, pki.Expect{Roots: roots}, []pki.FaultCode{pki.FaultNoHosts}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []pki.FaultCode
			for _, f := range pki.Examine(time.Now().Add(tt.at), []*x509.Certificate{tt.pair.Leaf}, tt.want) {
				got = append(got, f.Code)
				if f.Text == "" {
					t.Errorf("%s says nothing", f.Code)
				}
			}
			if diff := cmp.Diff(tt.got, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	// The usage is looked at too, whatever the URI says.
	cert := *fine.Leaf
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if got := pki.Examine(time.Now(), []*x509.Certificate{&cert}, pki.Expect{}); len(got) != 1 || got[0].Code != pki.FaultUsage {
		t.Errorf("a server that may be a client only: %v", got)
	}
}

func TestExamineKey(t *testing.T) {
	prod := newAuthority(t, "prod")
	one, two := issue(t, prod, 0, node("gpu-1")), issue(t, prod, 0, node("gpu-1"))
	if got, err := pki.ExamineKey(one.Leaf, one.Key); err != nil || len(got) > 0 {
		t.Errorf("its own key: %v, %v", got, err)
	}
	if got, err := pki.ExamineKey(one.Leaf, two.Key); err != nil || len(got) != 1 || got[0].Code != pki.FaultKey {
		t.Errorf("another key: %v, %v", got, err)
	}
	if _, err := pki.ExamineKey(one.Leaf, one.Cert); err == nil {
		t.Error("a certificate is a key")
	}
}
