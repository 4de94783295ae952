package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
)

// stranger is an engine that the gateway was not built to know. Its load stands where
// no engine has it that the gateway knows.
type stranger struct {
	mu     sync.Mutex
	asked  []string // paths
	bodies []string
}

func (s *stranger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.Path)
	switch r.URL.Path {
	case "/load":
		_, _ = fmt.Fprint(w, "mystery_busy 3\nmystery_queue 2\n")
	case "/v1/models":
		_, _ = fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
	default:
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.bodies = append(s.bodies, string(body))
		_, _ = fmt.Fprint(w, `{}`)
	}
}

func (s *stranger) was(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.asked, path)
}

func mystery() *feed.Facts {
	sum := func(name string) engines.Metric {
		return engines.Metric{Names: []string{name}, Aggregate: engines.AggregateSum}
	}
	return &feed.Facts{
		Capabilities: engines.Capabilities{ChecksModel: true, PriorityField: "priority", PriorityOrder: engines.PriorityHighFirst},
		Metrics: &engines.MetricContract{
			Engine: "mystery", Path: "/load", Prefix: "mystery_", Running: sum("mystery_busy"), Waiting: sum("mystery_queue"), UsuallyRuns: 7,
		},
	}
}

// What an adapter says of an engine that the gateway does not know comes with the feed
// and counts: its load is read where it stands, it is not asked who it is where it
// refuses other models by itself, and a priority goes along as it orders them.
func TestTold(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts *feed.Facts
	}{{"told", mystery()}, {"told nothing", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			engine := &stranger{}
			srv := httptest.NewServer(engine)
			t.Cleanup(srv.Close)
			f := newAdmitting(t, admitting())
			f.run()
			p := following(t, f)
			id := feed.Instance{Replica: "m-1", Generation: 1, Start: "s1"}
			if err := p.SetModels([]catalog.Model{{Name: "m"}}); err != nil {
				t.Fatal(err)
			}
			entry := feed.Entry{
				Model: "m", Instance: id, Address: strings.TrimPrefix(srv.URL, "http://"), Engine: "mystery", Served: "m", PriorityScheduling: true, Facts: tt.facts,
			}
			if err := p.SetEntries([]feed.Entry{entry}); err != nil {
				t.Fatal(err)
			}
			awaitUse(t, p, id, "the router has it", func(u feed.Use) bool { _, said := u.Requests.Get(); return said })
			told := tt.facts != nil
			if told {
				f.eventually("its load is known", func() bool {
					return f.metric("llmgw_endpoint_engine_running_requests", "endpoint=m-1") == 3 && f.metric("llmgw_endpoint_engine_waiting_requests", "endpoint=m-1") == 2
				})
			}
			if got := f.do("POST", chatPath, `{"model":"m","messages":[]}`); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if engine.was("/v1/models") == told || engine.was("/load") != told {
				t.Errorf("it was asked for %q", engine.asked)
			}
			if has := strings.Contains(engine.bodies[0], `"priority":`); has != told {
				t.Errorf("it was sent %s", engine.bodies[0])
			}
		})
	}
}
