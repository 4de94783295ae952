package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/fleet/pki"
)

// An authority certifies a node; whoever claims to be another one is refused.
func Example() {
	now := time.Now()
	authority, err := pki.NewAuthority("prod", now, pki.DefaultAuthorityLifetime)
	if err != nil {
		fmt.Println(err)
		return
	}
	pair, err := authority.Issue(now, pki.Request{Role: pki.RoleNode, ID: "gpu-17", Lifetime: pki.DefaultLifetime})
	if err != nil {
		fmt.Println(err)
		return
	}
	// What a handshake with a configuration of Reloader.Server leaves behind.
	state := tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{pair.Leaf},
		VerifiedChains:   [][]*x509.Certificate{{pair.Leaf, authority.Certificate()}},
	}
	fmt.Println(pki.CheckNode(state, "gpu-17"))
	_, err = pki.CheckNode(state, "gpu-18")
	fmt.Println(err)
	// Output:
	// node gpu-17 of cluster prod <nil>
	// node "gpu-18" is claimed with the certificate of "gpu-17": pki: wrong node: give the node a certificate of its own, or start its agent under the certificate's name
}
