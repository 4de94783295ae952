package server_test

import (
	"testing"
)

// A model with a profile makes the server a control plane, which alone opens no port
// to other machines.
func TestProfileMakesAControlPlane(t *testing.T) {
	const (
		models = "models: [{name: m, source: /m, profile: {engine: sim}}]\n"
		secret = "agent_tls: {cert_file: a, key_file: b, ca_file: c}\n"
	)
	for _, tt := range []struct {
		text    string
		at      string
		warned  bool
		keeps   bool
		environ string
	}{
		{text: "auth: {enabled: false}", keeps: false},
		{text: "auth: {enabled: false}\nstore: {dsn: 'sqlite:here.db'}", keeps: true},
		{text: "auth: {enabled: true}", keeps: true},
		{text: "auth: {enabled: false}\n" + models, at: "127.0.0.1:7443", keeps: true},
		{text: models + secret, at: ":7443", keeps: true},
		{text: models + "agent_listen: ':9'", at: ":9", warned: true, keeps: true},
		{text: models + "agent_listen: ''\nauth: {enabled: false}"},
		{text: models, environ: "LLMGW_AGENT_LISTEN=127.0.0.1:0", at: "127.0.0.1:0", keeps: true},
		{text: "models: [{name: m, source: /m}]\nauth: {enabled: false}"},
	} {
		loaded, faults := parse(t, tt.text, tt.environ)
		if len(faults) > 0 {
			t.Errorf("%q: %v", tt.text, faults)
			continue
		}
		if got := loaded.AgentAddress(); got != tt.at || loaded.ControlPlane() != (tt.at != "") {
			t.Errorf("%q: a control plane: %t, at %q; want %q", tt.text, loaded.ControlPlane(), got, tt.at)
		}
		if got := loaded.ClearWarning() != ""; got != tt.warned {
			t.Errorf("%q: warned that agents speak in clear: %t", tt.text, got)
		}
		if loaded.Keeps() != tt.keeps {
			t.Errorf("%q: it has a store: %t", tt.text, loaded.Keeps())
		}
	}
	loaded, _ := parse(t, "auth: {enabled: false}\nstore: {dsn: 'sqlite:here.db'}")
	loaded.StoredProfiles = true
	if loaded.AgentAddress() != "127.0.0.1:7443" {
		t.Errorf("a model of the store: at %q", loaded.AgentAddress())
	}
}
