package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// reading is what the target holds at one moment. What a target does not tell
// is nil.
type reading struct {
	OpenFiles   int   `json:"open_files"`
	EngineConns int64 `json:"engine_connections"`
	EngineRuns  int64 `json:"engine_answers_under_way"`
	// Goroutines and HeapBytes (live, behind a collection) come from the admin
	// listener, InFlight is the sum of the gauges that the flag names.
	Goroutines *int64   `json:"goroutines,omitempty"`
	HeapBytes  *int64   `json:"heap_bytes,omitempty"`
	InFlight   *float64 `json:"in_flight,omitempty"`
}

func (r reading) String() string {
	s := fmt.Sprintf("%d files, %d engine connections", r.OpenFiles, r.EngineConns)
	if r.Goroutines != nil {
		s += fmt.Sprintf(", %d goroutines", *r.Goroutines)
	}
	if r.HeapBytes != nil {
		s += fmt.Sprintf(", heap %d MiB", *r.HeapBytes>>20)
	}
	if r.InFlight != nil {
		s += fmt.Sprintf(", %g in flight", *r.InFlight)
	}
	return s
}

// unrest lists what of r shows that something was left behind since before.
func (r reading) unrest(before reading, opts options) []string {
	var out []string
	more := func(what string, now, then int64) {
		if now > then+int64(opts.slack) {
			out = append(out, fmt.Sprintf("%d %s, %d at the start", now, what, then))
		}
	}
	more("open files", int64(r.OpenFiles), int64(before.OpenFiles))
	if r.Goroutines != nil && before.Goroutines != nil {
		more("goroutines", *r.Goroutines, *before.Goroutines)
	}
	if r.HeapBytes != nil && before.HeapBytes != nil && *r.HeapBytes > *before.HeapBytes+opts.heapSlack {
		out = append(out, fmt.Sprintf("live heap of %d MiB, %d MiB at the start", *r.HeapBytes>>20, *before.HeapBytes>>20))
	}
	if r.InFlight != nil && *r.InFlight != 0 {
		out = append(out, fmt.Sprintf("%g requests in flight by the metrics", *r.InFlight))
	}
	if r.EngineRuns != 0 {
		out = append(out, fmt.Sprintf("%d answers under way at the engines, which nobody reads", r.EngineRuns))
	}
	return out
}

// read takes a reading.
func (s *soak) read(ctx context.Context) (reading, error) {
	var r reading
	var err error
	if r.OpenFiles, err = s.peer.Process.OpenFiles(); err != nil {
		return r, err
	}
	for _, e := range s.engines {
		st := e.Stats()
		r.EngineConns += st.Connections
		r.EngineRuns += st.Running
	}
	if s.peer.Admin == "" {
		return r, nil
	}
	page, err := fetch(ctx, "http://"+s.peer.Metrics+"/metrics")
	if err != nil {
		return r, err
	}
	inFlight, err := sumMetrics(page, regexp.MustCompile(s.opts.inFlight))
	if err != nil {
		return r, err
	}
	r.InFlight = &inFlight
	if page, err = fetch(ctx, "http://"+s.peer.Admin+"/debug/pprof/heap?gc=1&debug=1"); err != nil {
		return r, err
	}
	if r.HeapBytes, err = numberAfter(page, "# HeapAlloc = "); err != nil {
		return r, err
	}
	if page, err = fetch(ctx, "http://"+s.peer.Admin+"/debug/pprof/goroutine?debug=1"); err != nil {
		return r, err
	}
	r.Goroutines, err = numberAfter(page, "goroutine profile: total ")
	return r, err
}

// sumMetrics adds up the samples of a metrics page whose names match. That none
// does is an error: a gauge that is not there shows nothing.
func sumMetrics(page string, names *regexp.Regexp) (float64, error) {
	var sum float64
	found := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if !names.MatchString(name) {
			continue
		}
		// The value stands behind the labels, which may hold spaces.
		rest := strings.TrimSpace(line[strings.LastIndexByte(line, '}')+1:])
		fields := strings.Fields(strings.TrimPrefix(rest, name))
		if len(fields) == 0 {
			return 0, fmt.Errorf("metrics line %q has no value", line)
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("metrics line %q: %w", line, err)
		}
		sum += v
		found = true
	}
	if !found {
		return 0, fmt.Errorf("no metric matches %s", names)
	}
	return sum, nil
}

// numberAfter returns the whole number behind the first mark in page.
func numberAfter(page, mark string) (*int64, error) {
	_, rest, ok := strings.Cut(page, mark)
	if !ok {
		return nil, fmt.Errorf("the page has no %q", mark)
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.ParseInt(rest[:end], 10, 64)
	return &n, err
}

// fetch returns the page at url. It keeps no connection, which would count
// among what it looks for.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s answers %s", url, resp.Status))
	}
	return string(b), err
}
