package server

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
)

// sinks are everything that a key could be written to, by name.
type sinks map[string]*locked

func (s sinks) to(name string) io.Writer {
	if s[name] == nil {
		s[name] = &locked{}
	}
	return s[name]
}

// files adds what is on disk below a directory.
func (s sinks) files(t *testing.T, name, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = s.to(name).Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A key that is used in every way, rightly and wrongly, and put where none belongs,
// is in nothing that the server writes, answers, shows, keeps or sends on.
func TestCanary(t *testing.T) {
	all := sinks{}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Prompts and headers that mean nothing here reach the engine as they are.
		header := r.Header.Clone()
		for _, name := range []string{"X-Session-Id", "User-Agent", "Referer", "Traceparent"} {
			header.Del(name)
		}
		fmt.Fprintln(all.to("engine"), r.Method, r.URL, header)
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Header.Get("X-Mode") == "fail" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}`)
	}))
	defer engine.Close()
	dir := t.TempDir()
	cfg := testConfig()
	cfg.Auth.Enabled = true
	cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(dir, "store", "llmgw.db"))
	cfg.Gateway.Recorder.Dir = filepath.Join(dir, "record")
	cfg.Gateway.Router.Core.DefaultProfile = "debug" // which logs each decision
	cfg.Gateway.Models = []catalog.Model{{Name: "m", Prices: []catalog.Price{{Output: new(catalog.Money(1_000_000_000))}}, ContextTokens: 4096}}
	cfg.Gateway.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{ID: "e", URL: engine.URL, Models: []endpoint.Model{{Name: "m"}}}}}
	r := startLogging(t, cfg, gatewayModule(), slog.NewJSONHandler(all.to("log"), &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	admin, err := api.NewClient(api.ClientConfig{URL: "http://" + r.Admin})
	if err != nil {
		t.Fatal(err)
	}
	st := opened(t, cfg.Store.DSN)
	id, key := mint(t, st, auth.Spec{Name: "n", Budget: "1/day", MayExplain: true})
	_, poor := mint(t, st, auth.Spec{Budget: "0.000001/day"})
	gone, revoked := mint(t, st, auth.Spec{})
	if status, body := ask(t, "POST", "http://"+r.Client+"/v1/chat/completions", key); status != 200 { // which waits for the store
		t.Fatalf("%d %s", status, body)
	}
	if _, err := admin.Keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: gone}); err != nil {
		t.Fatal(err)
	}
	made, err := admin.Keys.CreateKey(t.Context(), &apipb.CreateKeyRequest{Name: "over the API"})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := admin.Keys.RotateKey(t.Context(), &apipb.RotateKeyRequest{Id: made.GetKey().GetId()})
	if err != nil {
		t.Fatal(err)
	}
	never, err := auth.Mint(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{key, poor, revoked, never.Reveal(), made.GetSecret(), rotated.GetSecret()}

	outcomes := map[int]int{}
	const chat, body = "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`
	send := func(target, body string, header ...string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Client+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		outcomes[resp.StatusCode]++
		fmt.Fprintln(all.to("answers"), resp.Status, resp.Header)
		if _, err := io.Copy(all.to("answers"), resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range keys {
		send(chat, body, "Authorization", "Bearer "+k)
		send(chat, body, "X-Api-Key", k, "X-Mode", "fail")
		send("/v1/messages", body, "X-Api-Key", k)
		send(chat, body, "Authorization", "Bearer "+k, "Proxy-Authorization", "Bearer "+k, "Cookie", "key="+k)
		send(chat, body, "Authorization", k)
		send(chat, body, "Authorization", "Bearer "+k, "X-Api-Key", keys[0])
		send(chat+"?key="+k, body)
		send("/"+k+"/v1", body, "X-Api-Key", k)
		send("/v1/files/"+k, body, "Authorization", "Bearer "+key)
		send("/v1/responses/"+k, body, "Authorization", "Bearer "+key)
		send(chat, `{"model":"`+k+`","messages":[]}`, "Authorization", "Bearer "+key)
		send(chat, `{"model":"`+k, "Authorization", "Bearer "+key)
		send(chat, `{"model":"m","`+k+`":1,"messages":[{"role":"user","content":"`+k+`"}],"user":"`+k+`","max_tokens":"`+k+`"}`, "Authorization", "Bearer "+key)
		send(chat, body, "Authorization", "Bearer "+key, "X-Request-Id", k)
		send(chat, body, "Authorization", "Bearer "+key, "Request-Id", "id-"+k)
		send(chat, body, "Authorization", "Bearer "+key, "X-Session-Id", k)
		send(chat, body, "Authorization", "Bearer "+key, "X-Llmgw-Band", k, "X-Llmgw-Explain", k)
		send(chat, body, "Authorization", "Bearer "+key, "Content-Type", k, "Content-Encoding", k)
		send(chat, body, "Authorization", "Bearer "+key, "Traceparent", k, "User-Agent", k, "Referer", "http://x/?key="+k, "X-Forwarded-For", k)
		// What people who make keys may mistake for something else.
		for name, err := range map[string]error{
			"get":     second(admin.Keys.GetKey(t.Context(), &apipb.GetKeyRequest{Id: k})),
			"revoke":  second(admin.Keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: k})),
			"rotate":  second(admin.Keys.RotateKey(t.Context(), &apipb.RotateKeyRequest{Id: k})),
			"create":  second(admin.Keys.CreateKey(t.Context(), &apipb.CreateKeyRequest{Name: k, Owner: k, Band: k, Models: []string{k}, Budget: k, Actor: k})),
			"limits":  second(admin.Limits.GetLimits(t.Context(), &apipb.GetLimitsRequest{KeyId: k})),
			"explain": second(admin.Routing.ExplainRoute(t.Context(), &apipb.ExplainRouteRequest{Body: []byte(`{"model":"` + k + `"}`), Session: &k, Band: &k})),
		} {
			fmt.Fprintln(all.to("errors of the API"), name, err)
		}
		send(chat, body, "Authorization", "Bearer "+k, "X-Mode", "fail", "X-Llmgw-Explain", "1")
	}
	if _, err := admin.Limits.GetLimits(t.Context(), &apipb.GetLimitsRequest{KeyId: id}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/metrics", "/debug/decisions", "/debug/decisions?format=json", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2",
		"/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1", "/debug/pprof/trace?seconds=0.1", "/debug/pprof/mutex?debug=1", "/debug/pprof/block?debug=1",
	} {
		_, page := get(t, "http://"+r.Admin+path)
		fmt.Fprintln(all.to("page "+path), page)
	}
	cmdline, err := os.ReadFile("/proc/self/cmdline")
	if err == nil {
		_, _ = all.to("ps").Write(cmdline)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	rows, _, err := st.ListUsage(t.Context(), storage.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(all.to("usage"), "%+v", rows)
	audits, _, err := st.ListAudit(t.Context(), storage.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range audits {
		fmt.Fprintf(all.to("audit"), "%+v %s %s\n", a, a.Before, a.After)
	}
	var dump bytes.Buffer
	if err := st.Export(t.Context(), &dump); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(all.to("export"), dump.String())
	all.files(t, "store on disk", filepath.Join(dir, "store"))
	all.files(t, "recorder on disk", cfg.Gateway.Recorder.Dir)

	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := all[name].String()
		if len(text) < 10 {
			t.Errorf("%s has %d bytes: the test sees too little", name, len(text))
		}
		for i, k := range keys {
			// The 43 random characters, of which the last may be cut off.
			if at := strings.Index(text, k[6:40]); at >= 0 {
				t.Errorf("%s has key %d: …%q…", name, i, text[max(0, at-150):min(len(text), at+60)])
			}
		}
	}
	if outcomes[200] == 0 || outcomes[400] == 0 || outcomes[401] == 0 || outcomes[404] == 0 || outcomes[429] == 0 || len(rows) < 50 || len(audits) < 6 {
		t.Errorf("the test saw too little: %v, %d rows, %d audit rows", outcomes, len(rows), len(audits))
	}
}

func second[T any](_ T, err error) error { return err }

// A panic while a request with a key is served is logged with its stack and without
// the key.
func TestCanaryInAPanic(t *testing.T) {
	secret, err := auth.Mint(nil)
	if err != nil {
		t.Fatal(err)
	}
	var log locked
	p := newFakePlane(func(_ http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		panic(fmt.Sprintf("a fault of ours, with %d bytes at hand", len(header)))
	})
	r := startLogging(t, testConfig(), p.module(), slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Client+"/v1/chat/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret.Reveal())
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("status %d; want the connection cut", resp.StatusCode)
	}
	if text := log.String(); !strings.Contains(text, "a fault of ours") || strings.Contains(text, secret.Reveal()[6:40]) {
		t.Errorf("log:\n%s", text)
	}
}
