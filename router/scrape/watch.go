package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
	"github.com/llmgw/llmgw/router/endpoint"
)

const (
	// maxPageBytes bounds a page. One of vLLM has 60 kB a data-parallel rank;
	// those of TEI before 1.0.0 have 100,000 buckets, which are 4.5 MB.
	maxPageBytes = 8 << 20
	// keptBufferBytes bounds the buffers that are kept for the next scrapes.
	keptBufferBytes = 512 << 10
	// foreignPause is how long a path that has something other than metrics
	// is left alone while the engine is still to be found out.
	foreignPause = time.Minute
)

// watch is the scraping of one endpoint instance. Its goroutine alone uses it.
type watch struct {
	*Scraper
	endpoint *endpoint.Endpoint
	client   Doer
	contract *engines.MetricContract // nil: to be found out, or there is none
	detect   bool                    // the page tells which engine it is
	foreign  map[string]time.Time    // when a path had no metrics but something else
	last     Outcome
}

func (s *Scraper) newWatch(e *endpoint.Endpoint) *watch {
	w := &watch{
		Scraper:  s,
		endpoint: e,
		detect:   e.Spec().Engine.Detected(),
		foreign:  make(map[string]time.Time),
	}
	if !w.detect {
		i := slices.IndexFunc(s.contracts, func(c engines.MetricContract) bool { return c.Engine == e.Spec().Engine })
		if i >= 0 {
			w.contract = &s.contracts[i]
		} else if told := e.Spec().Told; told != nil {
			w.contract = told.Metrics
		}
	}
	return w
}

// run scrapes at once and then at each interval until ctx is done.
func (w *watch) run(ctx context.Context) {
	if !w.detect && w.contract == nil {
		w.note(OutcomeUnsupported, nil)
		return
	}
	w.client = w.clientFor(w.endpoint)
	next := time.NewTimer(0)
	defer next.Stop()
	// Endpoints that came together are scraped at once together, and from
	// then on each at a moment of its own.
	wait := time.Duration(float64(w.cfg.Interval) * rand.Float64())
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(wait)
		wait = time.Duration(float64(w.cfg.Interval) * (0.9 + 0.2*rand.Float64()))
		release := w.slot(ctx, w.last != OutcomeUnset && !w.last.measured())
		if release == nil {
			return
		}
		start := time.Now()
		outcome, err := w.scrape(ctx)
		release()
		if ctx.Err() != nil {
			return // it was us who broke it off
		}
		w.metrics.duration.Observe(time.Since(start).Seconds())
		w.note(outcome, err)
	}
}

// scrape reads the engine's load once.
func (w *watch) scrape(ctx context.Context) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	buffer := w.buffers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= keptBufferBytes {
			w.buffers.Put(buffer)
		}
	}()
	if w.contract == nil {
		return w.identify(ctx, buffer)
	}
	outcome, err := w.read(ctx, w.contract.Path, buffer)
	if outcome == OutcomeUnrecognised && w.detect {
		w.contract = nil // another engine may have come to the address
	}
	return outcome, err
}

// identify tries the paths of all contracts until one has a page that some
// contract recognises. A path that had something other than metrics is left
// alone for a while: trtllm-serve's /metrics is JSON, and reading it takes it
// away from whom it is for.
func (w *watch) identify(ctx context.Context, buffer *[]byte) (Outcome, error) {
	first, why := OutcomeUnset, error(nil)
	for _, path := range w.paths {
		if at, ok := w.foreign[path]; ok && time.Since(at) < foreignPause {
			continue
		}
		outcome, err := w.read(ctx, path, buffer)
		if w.contract != nil || outcome == OutcomeTimeout || outcome == OutcomeUnreachable {
			return outcome, err // found, or the other paths will fare no better
		}
		if first == OutcomeUnset {
			// Told of is what the usual path had, not the rarest.
			first, why = outcome, err
		}
	}
	if first == OutcomeUnset {
		return OutcomeUnrecognised, errUnknown
	}
	return first, why
}

// read gets one page and gives what it says to the endpoint.
func (w *watch) read(ctx context.Context, path string, buffer *[]byte) (Outcome, error) {
	begun, before := w.endpoint.Begun(), w.endpoint.InFlight()
	page, err := w.get(ctx, path, (*buffer)[:0])
	*buffer = page
	if err != nil {
		return classify(ctx, err), err
	}
	if w.contract == nil {
		found, ok := exposition.Detect(page, w.contracts)
		if !ok {
			if _, err := exposition.Read(page, w.contracts[0]); errors.Is(err, exposition.ErrNotText) {
				w.foreign[path] = time.Now()
			}
			return OutcomeUnrecognised, errUnknown
		}
		found.Path = path
		w.contract = &found
	}
	load, err := exposition.Read(page, *w.contract)
	if err != nil {
		return classify(ctx, err), err
	}
	w.endpoint.SetLoad(&endpoint.LoadState{
		Load:     load,
		InFlight: seen(load, before+w.endpoint.Begun()-begun),
		At:       time.Now(),
		Engine:   w.contract.Engine,
	})
	return complete(w.contract, load), nil
}

// seen returns how many of our requests a page has seen, as far as can be told:
// no more than it speaks of, and no more than the most that were in flight while
// it was fetched. With too low a number those that it has seen would count twice,
// with too high a one those that came after it would not count; either way a
// burst between two scrapes would end on the wrong engines.
func seen(load engines.Load, most int64) int64 {
	running, ok := load.Running.Get()
	waiting, ok2 := load.Waiting.Get()
	if !ok || !ok2 {
		return most
	}
	return min(most, int64(running+waiting))
}

// get appends the page at path to page.
func (w *watch) get(ctx context.Context, path string, page []byte) ([]byte, error) {
	u := *w.endpoint.URL()
	u.Path, u.RawPath = u.Path+path, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return page, err
	}
	// Asked without this, some engines answer in OpenMetrics.
	req.Header.Set("Accept", "text/plain; version=0.0.4")
	req.Header.Set("User-Agent", "llmgw")
	if secret := w.endpoint.Spec().Secret; secret != "" && (w.contract == nil || w.contract.NeedsKey) {
		req.Header.Set("Authorization", "Bearer "+secret.Reveal())
	}
	res, err := w.client.Do(req)
	if err != nil {
		return page, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, res.Body, 4096) // short ones leave the connection usable
		return page, fmt.Errorf("%w but %d at %s", errStatus, res.StatusCode, path)
	}
	for {
		if len(page) == cap(page) {
			page = slices.Grow(page, max(32<<10, cap(page)))
		}
		n, err := res.Body.Read(page[len(page):cap(page)])
		page = page[:len(page)+n]
		switch {
		case len(page) > maxPageBytes:
			return page, fmt.Errorf("%w: more than %d bytes at %s", errTooLarge, maxPageBytes, path)
		case err == io.EOF:
			return page, nil
		case err != nil:
			return page, err
		}
	}
}

// note counts the outcome, and logs it if it is another than the last.
func (w *watch) note(outcome Outcome, err error) {
	w.metrics.scrapes[outcome].Inc()
	if outcome == w.last {
		return
	}
	last := w.last
	w.last = outcome
	id := slog.String("endpoint", w.endpoint.ID())
	switch outcome {
	case OutcomeOK:
		if last != OutcomeUnset {
			w.log.Info("engine's load is measured again", id)
		}
	case OutcomeUnsupported:
		w.log.Info("engine exports no metrics; its load is known by what is sent to it",
			id, slog.String("engine", string(w.endpoint.Spec().Engine)))
	case OutcomePartial:
		w.log.Warn("engine's metrics lack running or waiting requests; what is absent counts as unknown",
			id, slog.String("engine", string(w.contract.Engine)))
	default:
		w.log.Warn("engine's metrics cannot be read; its load will count as unknown",
			id, slog.String("outcome", outcome.String()), slog.Any("err", err))
	}
}
