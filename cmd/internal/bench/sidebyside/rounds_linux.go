package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// sample is one peer under one load once.
type sample struct {
	Scenario  string    `json:"scenario"`
	Peer      string    `json:"peer"`
	Round     int       `json:"round"`
	At        time.Time `json:"at"`
	PeerCPU   float64   `json:"peer_cpu_s"`   // of the peer's processes; the engines' for direct
	EngineCPU float64   `json:"engine_cpu_s"` // of the engines
	// OtherCores is what the rest of the machine used meanwhile, in cores.
	OtherCores   float64      `json:"other_cores"`
	PeakRSSBytes int64        `json:"peak_rss_bytes"`
	Retaken      int          `json:"retaken,omitempty"` // times taken again since others used the machine
	Scrapes      int          `json:"scrapes,omitempty"` // of llmgw's metrics meanwhile
	Load         *load.Result `json:"load"`
}

// cpuPerAnswer is the peer's CPU time for one whole answer, in microseconds.
func (s sample) cpuPerAnswer() float64 { return s.PeerCPU * 1e6 / float64(s.Load.Whole) }

// bench runs loads against peers.
type bench struct {
	opts    options
	engines *peer.Peer
	peers   []*peer.Peer // the engines first
	log     *slog.Logger
}

// run takes all rounds of all scenarios. Samples of finished runs come back
// with an error too.
func (b *bench) run(ctx context.Context, list []scenario) ([]sample, error) {
	var out []sample
	for _, s := range list {
		rounds := b.opts.rounds
		if s.open() {
			rounds = b.opts.openRounds
		}
		for round := range rounds {
			for _, i := range order(len(b.peers), round) {
				sm, err := b.calm(ctx, s, b.peers[i])
				if err != nil {
					return out, fmt.Errorf("scenario %s, %s: %w", s.key, b.peers[i].Name, err)
				}
				sm.Round = round
				out = append(out, sm)
				b.log.Info("sample", "scenario", s.key, "round", round, "peer", sm.Peer,
					"answers_s", int(sm.Load.AnswersPerSecond()), "cpu_us", int(sm.cpuPerAnswer()),
					"p50_ms", sm.Load.Latency.P50MS, "failed", sm.Load.Failed, "other_cores", sm.OtherCores)
			}
		}
		if b.opts.profile != "" {
			for _, p := range b.peers {
				if p.Admin != "" {
					if err := b.profile(ctx, s, p); err != nil {
						return out, fmt.Errorf("profile of %s under %s: %w", p.Name, s.key, err)
					}
				}
			}
		}
	}
	return out, nil
}

// calm takes a sample, and takes it again, a bounded number of times, when
// other processes used more of the machine than allowed.
func (b *bench) calm(ctx context.Context, s scenario, p *peer.Peer) (sample, error) {
	for try := 0; ; try++ {
		b.awaitQuiet(ctx)
		sm, err := b.sample(ctx, s, p)
		if err != nil || sm.OtherCores <= b.opts.noise || try >= b.opts.retakes {
			sm.Retaken = try
			return sm, err
		}
	}
}

// awaitQuiet waits, a bounded time, until the machine is idle.
func (b *bench) awaitQuiet(ctx context.Context) {
	const look = 300 * time.Millisecond
	for end := time.Now().Add(b.opts.quiet); ctx.Err() == nil; {
		before, err := peer.MachineCPU()
		time.Sleep(look)
		after, err2 := peer.MachineCPU()
		used := (after - before).Seconds() / look.Seconds()
		if err != nil || err2 != nil || used <= b.opts.noise || time.Now().After(end) {
			return
		}
	}
}

func (b *bench) config(s scenario, p *peer.Peer) load.Config {
	cfg := s.load
	cfg.Addrs, cfg.Key, cfg.Warmup, cfg.Window, cfg.Timeout = p.Addrs, p.Key, b.opts.warmup, b.opts.window, 20*time.Second
	if s.open() {
		cfg.Window = b.opts.openWindow
	}
	return cfg
}

// sample applies the load once.
func (b *bench) sample(ctx context.Context, s scenario, p *peer.Peer) (sample, error) {
	sm := sample{Scenario: s.key, Peer: p.Name, At: time.Now()}
	p.Process.ResetPeakRSS()
	var reads [3][2]time.Duration
	read := func(i int) error {
		var err error
		for k, cpu := range []func() (time.Duration, error){p.Process.CPU, b.engines.Process.CPU, peer.MachineCPU} {
			if reads[k][i], err = cpu(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(0); err != nil {
		return sm, err
	}
	scrapes := b.scrape(ctx, p)
	res, err := peer.Load(ctx, b.config(s, p))
	sm.Scrapes = scrapes()
	if err != nil {
		return sm, err
	}
	if err := read(1); err != nil {
		return sm, err
	}
	wall := time.Since(sm.At)
	used := func(k int) float64 { return (reads[k][1] - reads[k][0]).Seconds() }
	sm.Load, sm.PeerCPU, sm.EngineCPU, sm.PeakRSSBytes = res, used(0), used(1), p.Process.PeakRSS()
	ours := sm.EngineCPU + res.CPUSeconds
	if p != b.engines {
		ours += sm.PeerCPU
	}
	sm.OtherCores = max(0, (used(2)-ours)/wall.Seconds())
	return sm, nil
}

// scrape reads the metrics of p, if it has any, as often as a monitoring system
// would at its most eager. The function returned ends that and says how often.
func (b *bench) scrape(ctx context.Context, p *peer.Peer) (end func() int) {
	if p.Metrics == "" || b.opts.scrape <= 0 {
		return func() int { return 0 }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan int)
	go func() {
		tick := time.NewTicker(b.opts.scrape)
		defer tick.Stop()
		n := 0
		for {
			select {
			case <-ctx.Done():
				done <- n
				return
			case <-tick.C:
				if err := get(ctx, "http://"+p.Metrics+"/metrics", io.Discard); err == nil {
					n++
				} else if ctx.Err() == nil {
					b.log.Warn("metrics not scraped", "peer", p.Name, "err", err)
				}
			}
		}
	}()
	return func() int { cancel(); return <-done }
}

// profile fetches a CPU profile of p during one more run of s, whose figures
// count for nothing, since profiling costs too.
func (b *bench) profile(ctx context.Context, s scenario, p *peer.Peer) error {
	cfg := b.config(s, p)
	seconds := max(int(cfg.Window.Seconds()), 1)
	cfg.Window = time.Duration(seconds+1) * time.Second
	name := filepath.Join(b.opts.profile, p.Name+"-"+s.key+".pprof")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	loaded := make(chan error, 1)
	cfgRun, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, err := load.Run(cfgRun, cfg)
		loaded <- err
	}()
	time.Sleep(cfg.Warmup)
	err = get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.Admin, seconds), f)
	if lerr := <-loaded; err == nil {
		err = lerr
	}
	if err == nil {
		b.log.Info("profile", "file", name, "look", "go tool pprof -top "+name)
	}
	return err
}

// get copies the page at url to w.
func get(ctx context.Context, url string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}
