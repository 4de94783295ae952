package server

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// cards is a collector that writes its own part of a page.
type cards struct {
	desc    *prometheus.Desc
	written int
}

func newCards() *cards {
	return &cards{desc: prometheus.NewDesc("cards_used", "Of cards.", []string{"card"}, nil)}
}

func (c *cards) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c *cards) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 5, "a")
}

func (c *cards) WriteText(w io.Writer, wanted func(string) bool) error {
	c.written++
	if !wanted("cards_used") {
		return nil
	}
	_, err := fmt.Fprint(w, "# HELP cards_used Of cards.\n# TYPE cards_used gauge\ncards_used{card=\"a\"} 5\n")
	return err
}

// A page is the same whether a collector writes its part or it is built, packed or
// not.
func TestPage(t *testing.T) {
	reg := newRegistry()
	c := newCards()
	reg.MustRegister(c, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "small"}, func() float64 { return 7 }))
	if err := reg.Register(newCards()); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("registered twice: %v", err)
	}
	h := newPage(reg)
	for _, tt := range []struct {
		name, target, accept, encoding string
		packed                         bool
		written                        int
		want                           map[string]bool
	}{
		{"text", "/metrics", "text/plain", "", false, 1, map[string]bool{"cards_used": true, "small": true}},
		{"anything, packed", "/metrics", "", "br, gzip;q=0.5", true, 1, map[string]bool{"cards_used": true, "small": true}},
		{"no gzip", "/metrics", "", "gzip;q=0", false, 1, map[string]bool{"cards_used": true, "small": true}},
		{"one family", "/metrics?name[]=small", "", "", false, 1, map[string]bool{"cards_used": false, "small": true}},
		{"the other family", "/metrics?name[]=cards_used", "", "gzip", true, 1, map[string]bool{"cards_used": true, "small": false}},
		{
			"what nobody writes", "/metrics", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "", false, 0,
			map[string]bool{"cards_used": true, "small": true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.written = 0
			req := httptest.NewRequest("GET", tt.target, nil)
			req.Header.Set("Accept", tt.accept)
			req.Header.Set("Accept-Encoding", tt.encoding)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if rec.Code != 200 || c.written != tt.written {
				t.Fatalf("%d, written %d times: %s", rec.Code, c.written, rec.Body)
			}
			var body io.Reader = rec.Body
			if packed := rec.Header().Get("Content-Encoding") == "gzip"; packed != tt.packed {
				t.Fatalf("packed %t: %v", packed, rec.Header())
			} else if packed {
				z, err := gzip.NewReader(body)
				if err != nil {
					t.Fatal(err)
				}
				body = z
			}
			got := map[string]bool{}
			dec := expfmt.NewDecoder(body, expfmt.ResponseFormat(rec.Header()))
			for {
				var family dto.MetricFamily
				if err := dec.Decode(&family); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				got[family.GetName()] = true
				if family.GetName() == "cards_used" && family.GetMetric()[0].GetGauge().GetValue() != 5 {
					t.Errorf("%v", &family)
				}
			}
			for name, want := range tt.want {
				if got[name] != want {
					t.Errorf("%s is there: %t", name, got[name])
				}
			}
		})
	}
	if !reg.Unregister(c) || reg.Unregister(c) {
		t.Error("it cannot be taken out, or twice")
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if strings.Contains(rec.Body.String(), "cards_used") {
		t.Error("what is taken out is told")
	}
}

// Of a page that could not be made nothing is written, and what is said is legible.
func TestPageThatCannotBeMade(t *testing.T) {
	reg := &registry{Registry: prometheus.NewRegistry(), large: prometheus.NewRegistry()}
	c := newCards()
	reg.MustRegister(c, failing{})
	h := newPage(reg)
	reg.Registry.Unregister(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "promhttp_metric_handler_errors_total", Help: "Total number of internal errors encountered by the promhttp metric handler.",
	}, []string{"cause"}))
	req := httptest.NewRequest("GET", "/metrics", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if rec.Code != 500 || c.written != 0 || rec.Header().Get("Content-Encoding") != "" || !strings.Contains(rec.Body.String(), "it cannot be read") {
		t.Errorf("%d, written %d times, %v: %q", rec.Code, c.written, rec.Header(), rec.Body)
	}
	for range mostPages {
		h.slots <- struct{}{}
	}
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), "at once") {
		t.Errorf("one too many: %d %q", rec.Code, rec.Body)
	}
}

type failing struct{}

func (failing) Describe(ch chan<- *prometheus.Desc) { ch <- prometheus.NewDesc("f", "", nil, nil) }

func (failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("f", "", nil, nil), errors.New("it cannot be read"))
}
