package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/config/server"
)

// A router's configuration says where its control planes are and how it proves
// itself to them, and nothing that is theirs.
func TestRouterConfiguration(t *testing.T) {
	const open = "auth: {enabled: false}\n"
	for _, tt := range []struct {
		text  string
		keeps bool
		want  []string
	}{
		{text: open + "follow: {servers: ['http://c:7443'], token_file: t}"},
		{text: open + "agent_listen: ''\nfollow: {servers: ['https://c:7443'], tls: {cert_file: a, key_file: b, ca_file: c}}"},
		{text: open + "store: {dsn: 'sqlite:here.db'}\nfollow: {servers: ['http://c:7443'], token_file: t}"},
		{text: "store: {dsn: 'postgres://u@h/d'}\nfollow: {servers: ['http://c:7443'], token_file: t}", keeps: true},
		{text: "agent_listen: ':9'\nmodels: [{name: m}]", want: []string{
			"f.yaml: follow.servers: there are none; a router learns models and engines from a control plane; want e.g. [https://control.example:7443]",
			"f.yaml: follow: neither tls nor token_file is set, so no control plane lets this router in; want one of them",
			`f.yaml:1: agent_listen: ":9", but agents dial control planes and not routers; leave it out`,
			"f.yaml:2: models: a router has those of its control plane; take them out here, and add them there",
			`f.yaml: store.dsn: "sqlite:llmgw.db" is a file, which other processes do not share, and this router asks for keys; want the PostgreSQL of the control plane, as postgres://user:password@host:5432/database, or auth.enabled: false`,
		}},
	} {
		l, faults := parse(t, tt.text)
		if len(faults) > 0 {
			t.Errorf("%q: %v", tt.text, faults)
			continue
		}
		var got []string
		if err := l.UseAsRouter(); err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		byText := cmp.Transformer("set", func(lines []string) map[string]bool {
			set := map[string]bool{}
			for _, line := range lines {
				set[line] = true
			}
			return set
		})
		if diff := cmp.Diff(tt.want, got, byText); diff != "" {
			t.Errorf("%q: faults (-want +got):\n%s", tt.text, diff)
		}
		if tt.want == nil && (!l.Router || l.ControlPlane() || l.Keeps() != tt.keeps) {
			t.Errorf("%q: a router %t, a control plane %t, with a store %t", tt.text, l.Router, l.ControlPlane(), l.Keeps())
		}
	}
}

// What cannot be followed is a fault in every server's file.
func TestFollowFaults(t *testing.T) {
	for text, want := range map[string]string{
		"follow: {servers: ['c:7443']}": `follow.servers[0]: feed: address: "c:7443" has no scheme or no host; want e.g. https://control.example:7443`,
		"follow: {servers: ['http://c:1'], tls: {cert_file: a, key_file: b, ca_file: c}}":                         `follow.servers[0]: "http://c:1" speaks in clear, but follow.tls is set; want https://`,
		"follow: {servers: ['https://c:1'], token_file: t}":                                                       `follow.servers[0]: feed: address: "https://c:1" needs a certificate for this router, and none is there; want one that llmgw ctl cert router makes`,
		"follow: {token_file: t, tls: {cert_file: a, key_file: b, ca_file: c}}":                                   "follow.token_file: stands beside follow.tls; want one of them: control planes with agent_tls ask for certificates, others for a token",
		"follow: {reconnect: {max_delay: 11s}}":                                                                   "follow.reconnect.max_delay: 11s; want delay to 10s",
		"follow: {name: a/b}":                                                                                     `follow.name: engines: not an id: "a/b" has '/'; want letters, digits, '.', '-' and '_'`,
		"follow: {tls: {cert_file: a}}":                                                                           "follow.tls: set cert_file, key_file and ca_file, or none of them: a connection on which both ends prove themselves needs all three",
		"{routers: {token_file: t}, agent_tls: {cert_file: a, key_file: b, ca_file: c}, agent_listen: '[::1]:7'}": "routers.token_file: stands beside agent_tls, where routers show certificates, which llmgw ctl cert router makes; leave it out",
	} {
		if _, faults := parse(t, text); len(faults) != 1 || faults[0] != "f.yaml:1: "+want {
			t.Errorf("%q: %q\nwant %q", text, faults, want)
		}
	}
}

func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for text, good := range map[string]bool{
		"0123456789abcdef\n": true, "0123456789abcde": false, "": false, "0123456789 abcdef": false, strings.Repeat("x", 600): false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := server.ReadToken(file)
		if good != (err == nil && token == strings.TrimSpace(text)) {
			t.Errorf("%q: %q, %v", text, token, err)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
	if token, err := server.ReadToken(""); token != "" || err != nil {
		t.Errorf("no file: %q, %v", token, err)
	}
}
