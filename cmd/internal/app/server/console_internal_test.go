package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/console"
)

// stillTraffic is a gateway through which nothing goes.
type stillTraffic struct{}

func (stillTraffic) Traffic() console.TrafficReading { return console.TrafficReading{} }

// On the admin listener the console leaves the paths below /admin/ to an API, asks
// nobody who they are, and offers nothing of the pages on which people sign in.
func TestConsoleOfAdminListener(t *testing.T) {
	p, err := newAdminPages(config.DefaultConfig(), api.Deps{}, stillTraffic{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	p.mount(mux)
	for _, tt := range []struct {
		path, to string
		want     int
	}{
		{"/", "/console/", http.StatusSeeOther},
		{"/console/", "", http.StatusOK},
		{"/console/rates", "", http.StatusOK},
		{"/console/accounts", "", http.StatusNotFound},
		{"/console/elsewhere", "", http.StatusNotFound},
		{"/console/nodes", "", http.StatusNotFound}, // no control plane
		{"/admin/", "", http.StatusNotFound},
		{"/admin/keys", "", http.StatusNotFound},
		{"/login", "", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil))
		if w.Code != tt.want || w.Header().Get("Location") != tt.to {
			t.Errorf("%s: %d to %q; want %d to %q", tt.path, w.Code, w.Header().Get("Location"), tt.want, tt.to)
		}
		if strings.Contains(w.Body.String(), `href="/admin`) {
			t.Errorf("%s leads below /admin", tt.path)
		}
	}
}
