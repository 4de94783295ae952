package server

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/llmgw/llmgw/cmd/internal/app"
)

// exposer serves the metrics of a registry. Until it has one it says so: an
// empty page would read as "nothing happens here".
type exposer struct{ handler atomic.Pointer[http.Handler] }

func (e *exposer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := e.handler.Load()
	if h == nil {
		writePlain(w, http.StatusServiceUnavailable, "the metrics registry is not built yet; try again in a moment\n")
		return
	}
	(*h).ServeHTTP(w, r)
}

// expose serves reg from here on; what is registered later appears too.
func (e *exposer) expose(reg *registry) {
	var h http.Handler = newPage(reg)
	e.handler.Store(&h)
}

func newRegistry() *registry {
	reg := &registry{Registry: prometheus.NewRegistry(), large: prometheus.NewRegistry()}
	v := app.ReadVersion()
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "llmgw_build_info",
		Help:        "What this binary was built from; always 1.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision, "goversion": v.Go},
	}, func() float64 { return 1 })
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return reg
}

// metrics is what the process counts about itself.
type metrics struct {
	connections        prometheus.Gauge
	connectionsRefused prometheus.Counter
	reloads            *prometheus.CounterVec
	lastReload         prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "llmgw_server_connections", Help: "Open connections of clients.",
		}),
		connectionsRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_server_connections_refused_total", Help: "Connections of clients closed at once because http.max_connections were open.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_server_reloads_total", Help: "Times the configuration was read again, by result: applied or refused.",
		}, []string{"result"}),
		lastReload: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "llmgw_server_configuration_timestamp_seconds", Help: "When the running configuration was applied.",
		}),
	}
	m.reloads.WithLabelValues("applied")
	m.reloads.WithLabelValues("refused")
	m.lastReload.SetToCurrentTime() // what New was given is applied
	for _, c := range []prometheus.Collector{m.connections, m.connectionsRefused, m.reloads, m.lastReload} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
