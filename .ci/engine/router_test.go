package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// router is an `llmgw server` process.
type router struct {
	*process
	client, admin string // URLs
}

// place is an endpoint of a router. Clients call its model "words".
type place struct {
	id, url string
	engine  string // as in the configuration; "" is auto
	noKey   bool   // the router does not know the engine's key
}

// newRouter starts a router in front of places. Its times are short, so that
// tests need not wait for them, but for the one that a busy machine needs.
func newRouter(t *testing.T, places ...place) *router {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(apiKey), 0o600); err != nil {
		t.Fatal(err)
	}
	var c strings.Builder
	c.WriteString(`
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
log: {format: json}
shutdown: {grace: 0s, drain: 1s}
auth: {enabled: false} # the engine's own key is what these tests look at
router: {cooldown: 1s, scrape_interval: 100ms, scrape_timeout: 5s}
admission: {enabled: false} # these tests fill the engine's own queue
models: [{name: words}]
endpoints:
`)
	for _, p := range places {
		if p.engine == "" {
			p.engine = "auto"
		}
		fmt.Fprintf(&c, "  - {id: %s, url: %q, engine: %s, models: [{name: words, upstream: %s}]", p.id, p.url, p.engine, upstream)
		if !p.noKey {
			fmt.Fprintf(&c, ", key_file: %q", key)
		}
		c.WriteString("}\n")
	}
	file := filepath.Join(dir, "server.yaml")
	if err := os.WriteFile(file, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := startProcess("llmgw", *llmgw, "server", "-c", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the router's log:\n%s", p.tail())
		}
	})
	line, err := p.line(func(s string) bool { return strings.Contains(s, `"msg":"serving"`) }, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var at struct {
		Listen string `json:"listen"`
		Admin  string `json:"admin_listen"`
	}
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	return &router{process: p, client: "http://" + at.Listen, admin: "http://" + at.Admin}
}

// metric is a number on the router's metrics page; false if it is not there.
func (r *router) metric(t *testing.T, name string, labels ...string) (float64, bool) {
	t.Helper()
	return sample(get(t, r.admin+"/metrics", "").body, name, labels...)
}

// count is a counter, which is 0 until it is there.
func (r *router) count(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	v, _ := r.metric(t, name, labels...)
	return v
}

// reads waits until the router has read the engine's load.
func (r *router) reads(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		page := get(t, r.admin+"/metrics", "").body
		if _, ok := sample(page, "llmgw_endpoint_load_timestamp_seconds"); ok {
			return nil
		}
		tried := ""
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "llmgw_scrape_scrapes_total") {
				tried += line
			}
		}
		return fmt.Errorf("the router has read no load, after\n%s", tried)
	})
}
