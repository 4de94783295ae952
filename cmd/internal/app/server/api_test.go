package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// saying is a data plane that explains.
type saying string

func (s saying) ExplainRoute(context.Context, *apipb.ExplainRouteRequest) (*apipb.ExplainRouteResponse, error) {
	return &apipb.ExplainRouteResponse{Summary: []string{string(s)}}, nil
}

// The API is on the admin listener alone, for who names this machine, and not for
// the pages of other origins that a browser here shows.
func TestManagementAPI(t *testing.T) {
	p := newFakePlane(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	s := startWith(t, testConfig(), fx.Options(p.module(), fx.Provide(func() api.Routes { return saying("It runs.") })))
	tests := []struct {
		name, address string
		header        []string
		status        int
		want          string
	}{
		{"curl", s.Admin, nil, 200, "It runs."},
		{"localhost", s.Admin, []string{"Host", "localhost:9090"}, 200, "It runs."},
		{"its own page", s.Admin, []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://" + s.Admin}, 200, "It runs."},
		{"a page of another site", s.Admin, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403, "cross-origin"},
		{"a page of another port", s.Admin, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:3000"}, 403, "cross-origin"},
		{"an old browser", s.Admin, []string{"Origin", "https://evil.example"}, 403, "cross-origin"},
		{"a name that points here", s.Admin, []string{"Host", "evil.example"}, 421, "localhost"},
		{"the client listener", s.Client, nil, 404, ""},
		{"the metrics listener", s.Metrics, nil, 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+tt.address+apipb.RoutingServiceExplainRouteProcedure, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(tt.header); i += 2 {
				if tt.header[i] == "Host" {
					req.Host = tt.header[i+1]
				} else {
					req.Header.Set(tt.header[i], tt.header[i+1])
				}
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(text), tt.want) {
				t.Errorf("%d %s, %v; want %d with %s", resp.StatusCode, text, err, tt.status, tt.want)
			}
		})
	}
}
