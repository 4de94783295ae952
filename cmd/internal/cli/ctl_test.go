package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// explainRoute runs the command in this process.
func explainRoute(t *testing.T, body string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(t.Context(), append([]string{"ctl", "explain-route"}, args...), cli.Streams{In: strings.NewReader(body), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// A server is asked, tells where a request would go, and has sent none.
func TestCtlExplainRoute(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--json")
	defer s.stop(t)
	model := s.Models[0]
	body := `{"model": "` + model + `", "stream": true, "max_tokens": 5, "messages": [{"role": "system", "content": "` +
		strings.Repeat("You are of help. ", 100) + `"}, {"role": "user", "content": "Hello"}]}`
	if code, answer := askWith(t, s.APIKey, http.MethodPost, s.BaseURL+"/v1/chat/completions", body); code != http.StatusOK {
		t.Fatal(code, answer)
	}
	code, out, errs := explainRoute(t, body, "--admin", s.AdminURL, "--session", "s")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	for _, want := range []string{
		model + " goes to sim-", "request  /v1/chat/completions, model " + model + ", ", "at most 5 tokens, streamed, with a session\n",
		"retries  2 a model, 20 left", "1. " + model, "asked for\n", "profile    chat, max-score\n",
		"  ENDPOINT  CHANCE  SCORE  WEIGHT  IN FLIGHT  RUNNING  WAITING  KV", "100%", " of 17",
		"  VOTES  queue*2  inflight*2",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}

	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = explainRoute(t, "not read", "--admin", s.AdminURL, "--body", file, "--json")
	var doc struct {
		Verdict string
		Request struct {
			Model  string
			Stream bool
		}
		Turns []struct {
			Decision struct {
				Candidates []struct {
					Endpoint string
					InFlight *int `json:"in_flight"`
					Chance   *float64
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || strings.Count(out, "\n") != 1 {
		t.Fatalf("exit code %d, %s, %v: %s", code, errs, err, out)
	}
	if doc.Verdict != "ROUTE_VERDICT_RUNS" || doc.Request.Model != model || !doc.Request.Stream || len(doc.Turns) != 1 || len(doc.Turns[0].Decision.Candidates) != 3 {
		t.Errorf("%s", out)
	}
	for _, c := range doc.Turns[0].Decision.Candidates {
		if c.InFlight == nil || *c.InFlight != 0 || c.Chance == nil {
			t.Errorf("%+v", c)
		}
	}

	for _, tt := range []struct {
		name, body string
		args       []string
		want       string
	}{
		{"a model that there is not", `{"model":"nope"}`, nil, `unknown model "nope"; there are ` + model},
		{"malformed", `{"model":`, nil, "at byte 9"},
		{"empty", " \n", nil, "the request's body is empty; want JSON such as"},
		{"a path", body, []string{"--path", "/metrics"}, "want one such as"},
		{"no such file", "", []string{"--body", "/nonexistent"}, "no such file"},
		{"not the admin listener", body, []string{"--admin", s.BaseURL}, "is that the admin listener of llmgw server"},
		{"nobody", body, []string{"--admin", "http://127.0.0.1:1"}, "nothing listens at http://127.0.0.1:1: is llmgw server running"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := explainRoute(t, tt.body, append([]string{"--admin", s.AdminURL}, tt.args...)...)
			if code != 1 || out != "" || !strings.HasPrefix(errs, "llmgw: ctl explain-route: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, tt.want) {
				t.Errorf("exit code %d, %q, %q; want %q", code, out, errs, tt.want)
			}
		})
	}
}
