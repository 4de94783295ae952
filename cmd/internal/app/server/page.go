package server

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

const (
	// pageTimeout bounds the making of a page, and the writing of it.
	pageTimeout = 30 * time.Second
	// mostPages are made at once. More scrapers are a mistake or an attack.
	mostPages = 8
)

// registry is where the process's metrics are registered. Of a collector that writes
// its part of a page itself nothing is built: the cards of a large fleet are more
// than all else together.
type registry struct {
	*prometheus.Registry // all but those of writers

	large *prometheus.Registry // those of writers

	mu      sync.Mutex
	writers []pageWriter // guarded by mu
}

// pageWriter is a collector that can also write what it collects, in the text format,
// of the families that are wanted.
type pageWriter interface {
	prometheus.Collector
	WriteText(w io.Writer, wanted func(family string) bool) error
}

// Register implements [prometheus.Registerer].
func (r *registry) Register(c prometheus.Collector) error {
	w, ok := c.(pageWriter)
	if !ok {
		return r.Registry.Register(c)
	}
	if err := r.large.Register(c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers = append(r.writers, w)
	return nil
}

// MustRegister implements [prometheus.Registerer].
func (r *registry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements [prometheus.Registerer].
func (r *registry) Unregister(c prometheus.Collector) bool {
	w, ok := c.(pageWriter)
	if !ok {
		return r.Registry.Unregister(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers = slices.DeleteFunc(r.writers, func(have pageWriter) bool { return have == w })
	return r.large.Unregister(c)
}

// Gather implements [prometheus.Gatherer].
func (r *registry) Gather() ([]*dto.MetricFamily, error) {
	return prometheus.Gatherers{r.Registry, r.large}.Gather()
}

// page serves a registry's metrics. A collector that fails leaves its metrics out and
// counts as an error, the rest of the page is served.
type page struct {
	reg   *registry
	small http.Handler  // all but what is written
	whole http.Handler  // all, in formats that nothing writes
	slots chan struct{} // as many as pages may be made at once
	gzip  sync.Pool     // of *gzip.Writer
}

func newPage(reg *registry) *page {
	opts := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Registry: reg, Timeout: pageTimeout}
	p := &page{reg: reg, slots: make(chan struct{}, mostPages)}
	p.whole = promhttp.HandlerFor(reg, opts)
	opts.DisableCompression = true
	p.small = promhttp.HandlerFor(reg.Registry, opts)
	// A page is read by a machine nearby and is mostly names: the fastest level
	// makes a twentieth of it.
	p.gzip.New = func() any {
		z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			panic(err) // there is such a level
		}
		return z
	}
	return p
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		writePlain(w, http.StatusServiceUnavailable, "as many pages are being made as may be at once; try again in a moment\n")
		return
	}
	if expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...).FormatType() != expfmt.TypeTextPlain {
		p.whole.ServeHTTP(w, r)
		return
	}
	at := http.NewResponseController(w)
	_ = at.SetWriteDeadline(time.Now().Add(2 * pageTimeout)) // a connection that cannot is one of a test
	defer func() { _ = at.SetWriteDeadline(time.Time{}) }()
	out := &pageResponse{ResponseWriter: w, page: p, packs: acceptsGzip(r.Header)}
	defer out.end()
	p.small.ServeHTTP(out, r)
	if out.status != http.StatusOK {
		return
	}
	names := r.URL.Query()["name[]"] // as promhttp has it
	wanted := func(family string) bool { return len(names) == 0 || slices.Contains(names, family) }
	p.reg.mu.Lock()
	writers := slices.Clone(p.reg.writers)
	p.reg.mu.Unlock()
	for _, w := range writers {
		if w.WriteText(out, wanted) != nil {
			return // the scraper has gone
		}
	}
}

// pageResponse packs a page that is one.
type pageResponse struct {
	http.ResponseWriter

	page   *page
	packs  bool // whoever asks takes gzip
	status int  // 0: nothing was written
	gzip   *gzip.Writer
}

// WriteHeader implements [http.ResponseWriter].
func (w *pageResponse) WriteHeader(status int) {
	w.Header().Add("Vary", "Accept-Encoding")
	if w.status = status; status == http.StatusOK && w.packs {
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Encoding", "gzip")
		w.gzip = w.page.gzip.Get().(*gzip.Writer)
		w.gzip.Reset(w.ResponseWriter)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (w *pageResponse) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.gzip != nil {
		return w.gzip.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

func (w *pageResponse) end() {
	if w.gzip != nil {
		_ = w.gzip.Close() // the scraper sees that it is not whole
		w.page.gzip.Put(w.gzip)
	}
}

// acceptsGzip reports whether whoever asks takes gzip.
func acceptsGzip(h http.Header) bool {
	for offer := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(offer, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		weight, weighed := strings.CutPrefix(strings.TrimSpace(params), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !weighed || err == nil && q > 0
	}
	return false
}
