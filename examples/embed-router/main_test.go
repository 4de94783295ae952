package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The program serves its own page and the models, and lets an answer that is
// under way end when it is told to stop.
func TestRun(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l) }()
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()

	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/", "", "this program's own"},
		{"GET", "/v1/models", "", `"id":"sim-8b"`},
		{"GET", "/models", "", `"id":"sim-8b"`},
		{"POST", "/chat/completions", `{"model":"sim-8b","max_tokens":1,"messages":[{"role":"user","content":"Hello"}]}`, `"object":"chat.completion"`},
		{"POST", "/tokenize", `{"model":"sim-8b","prompt":"Hello"}`, `"tokens":`},
	} {
		res, err := send(t, client, tt.method, base+tt.path, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s %s: %d %q, %v; want %q in it", tt.method, tt.path, res.StatusCode, body, err, tt.want)
		}
	}

	res, err := send(t, client, http.MethodPost, base+"/v1/chat/completions",
		`{"model":"sim-8b","stream":true,"max_tokens":40,"ignore_eos":true,"messages":[{"role":"user","content":"Hello"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	one := make([]byte, 1)
	if _, err := io.ReadFull(res.Body, one); err != nil {
		t.Fatal(err)
	}
	stop()
	rest, err := io.ReadAll(res.Body)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the answer under way was cut: %v\n%s", err, rest)
	}
	if n := strings.Count(string(rest), `"content":"`); n < 40 {
		t.Errorf("%d events with content, want 40", n)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func send(t *testing.T, client *http.Client, method, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}
