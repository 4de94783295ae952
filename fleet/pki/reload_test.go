package pki_test

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/fleet/pki"
)

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*pki.Config)
		want   []string
	}{
		{"a pair", func(c *pki.Config) { c.CertFile, c.KeyFile = "c", "k" }, nil},
		{"roots alone", func(c *pki.Config) { c.CAFile = "ca" }, nil},
		{"nothing", func(*pki.Config) {}, []string{"cert_file: neither"}},
		{"half a pair", func(c *pki.Config) { c.CertFile = "c" }, []string{"key_file: "}},
		{"the other half, never looked at", func(c *pki.Config) { c.KeyFile, c.Poll = "k", 0 }, []string{"cert_file: ", "poll: "}},
	}
	for _, tt := range tests {
		cfg := pki.DefaultConfig()
		tt.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, text := range tt.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", tt.name, err, text)
			}
		}
	}
	if _, err := pki.NewReloader(pki.Config{}, pki.Deps{}); err == nil {
		t.Error("a Config without anything is taken")
	}
	cfg := pki.DefaultConfig()
	cfg.CAFile = "ca"
	if _, err := pki.NewReloader(cfg, pki.Deps{Registerer: prometheus.NewRegistry()}); err == nil || !strings.Contains(err.Error(), "Deps.Use") {
		t.Errorf("metrics without a label: %v", err)
	}
}

// watchedFiles are files that a Reloader watches, by the bubble's clock.
type watchedFiles struct {
	t   *testing.T
	cfg pki.Config
	r   *pki.Reloader
	log logText
}

// logText is what was logged.
type logText struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func watchFiles(t *testing.T, pair pki.Pair, roots ...*pki.Authority) *watchedFiles {
	w := &watchedFiles{t: t, cfg: files(t, pair, roots...)}
	r, err := pki.NewReloader(w.cfg, pki.Deps{Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(); err != nil {
		t.Fatal(err)
	}
	w.r = r
	go func() {
		if err := r.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return w
}

// polls lets the Reloader look n times and returns whose certificate it has.
func (w *watchedFiles) polls(n int) string {
	time.Sleep(time.Duration(n) * w.cfg.Poll)
	synctest.Wait()
	info, ok := w.r.Info()
	if !ok {
		w.t.Fatal("no certificate")
	}
	return info.Name
}

// logged returns how many lines with text were logged.
func (w *watchedFiles) logged(text string) int { return strings.Count(w.log.String(), text) }

func TestReload(t *testing.T) {
	prod := newAuthority(t, "prod")
	pairs := map[string]pki.Pair{}
	bubbleTime := -time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, name := range []string{"one", "two", "three"} {
		pairs[name] = issue(t, prod, -bubbleTime, server(name, "gw.example"))
	}
	pairs["later"] = issue(t, prod, -bubbleTime-pki.Skew-20*time.Minute, server("later", "gw.example"))
	const unusable = "cannot be used"
	tests := []struct {
		name string
		run  func(t *testing.T, w *watchedFiles)
	}{
		{"a renewal", func(t *testing.T, w *watchedFiles) {
			if err := pki.WritePair(w.cfg.CertFile, w.cfg.KeyFile, pairs["two"], true); err != nil {
				t.Fatal(err)
			}
			if got := w.polls(1); got != "two" || w.logged("read anew") != 1 {
				t.Errorf("%s after a renewal, log:\n%s", got, &w.log)
			}
		}},
		{"a renewal seen halfway is not a fault", func(t *testing.T, w *watchedFiles) {
			write(t, w.cfg.KeyFile, pairs["two"].Key)
			if got := w.polls(1); got != "one" || w.logged(unusable) != 0 {
				t.Errorf("%s halfway, log:\n%s", got, &w.log)
			}
			write(t, w.cfg.CertFile, pairs["two"].Cert)
			if got := w.polls(1); got != "two" || w.logged(unusable) != 0 {
				t.Errorf("%s at the end, log:\n%s", got, &w.log)
			}
		}},
		{"one that stays halfway is, once", func(t *testing.T, w *watchedFiles) {
			write(t, w.cfg.CertFile, pairs["two"].Cert)
			if got := w.polls(20); got != "one" || w.logged(unusable) != 1 || w.logged("does not belong to the certificate") != 1 {
				t.Errorf("%s, log:\n%s", got, &w.log)
			}
			write(t, w.cfg.CertFile, []byte("nonsense"))
			if got := w.polls(20); got != "one" || w.logged(unusable) != 2 {
				t.Errorf("%s, log of a second fault:\n%s", got, &w.log)
			}
			write(t, w.cfg.CertFile, pairs["one"].Cert) // as it was
			w.polls(2)
			write(t, w.cfg.CertFile, []byte("nonsense"))
			if got := w.polls(20); got != "one" || w.logged(unusable) != 3 {
				t.Errorf("%s, log of the same fault later:\n%s", got, &w.log)
			}
		}},
		{"files that are away", func(t *testing.T, w *watchedFiles) {
			if err := os.Remove(w.cfg.CertFile); err != nil {
				t.Fatal(err)
			}
			if got := w.polls(5); got != "one" || w.logged(unusable) != 1 {
				t.Errorf("%s, log:\n%s", got, &w.log)
			}
		}},
		{"a certificate for later waits", func(t *testing.T, w *watchedFiles) {
			if err := pki.WritePair(w.cfg.CertFile, w.cfg.KeyFile, pairs["later"], true); err != nil {
				t.Fatal(err)
			}
			if got := w.polls(100); got != "one" || w.logged(unusable) != 1 {
				t.Errorf("%s before it is valid, log:\n%s", got, &w.log)
			}
			if got := w.polls(30); got != "later" {
				t.Errorf("%s after that", got)
			}
		}},
		{"a bad bundle does not hold up a renewal", func(t *testing.T, w *watchedFiles) {
			write(t, w.cfg.CAFile, []byte("nonsense"))
			if err := pki.WritePair(w.cfg.CertFile, w.cfg.KeyFile, pairs["two"], true); err != nil {
				t.Fatal(err)
			}
			if got := w.polls(3); got != "two" || w.logged(unusable) != 1 {
				t.Errorf("%s, log:\n%s", got, &w.log)
			}
		}},
		{"a directory that a symbolic link swaps", func(t *testing.T, w *watchedFiles) {
			if err := pki.WritePair(w.cfg.CertFile+".2", w.cfg.KeyFile+".2", pairs["three"], false); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{w.cfg.KeyFile, w.cfg.CertFile} {
				if err := os.Symlink(filepath.Base(name)+".2", name+".new"); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(name+".new", name); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.polls(1); got != "three" {
				t.Errorf("%s after a swap", got)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watchFiles(t, pairs["one"], prod)
				if got := w.polls(3); got != "one" || w.log.String() != "" {
					t.Fatalf("%s, log:\n%s", got, &w.log)
				}
				tt.run(t, w)
			})
		})
	}
}

// Load, which a signal calls, tells of every fault each time, and of both parts.
func TestLoadTellsAll(t *testing.T) {
	prod := newAuthority(t, "prod")
	cfg := files(t, issue(t, prod, 0, node("gpu-1")), prod)
	r := loaded(t, cfg)
	write(t, cfg.KeyFile, nil)
	write(t, cfg.CAFile, nil)
	for range 2 {
		changed, err := r.Load()
		if changed || err == nil || !strings.Contains(err.Error(), cfg.KeyFile) || !strings.Contains(err.Error(), cfg.CAFile) {
			t.Errorf("changed %v, error %v; want both files", changed, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	prod := newAuthority(t, "prod")
	pair := issue(t, prod, 0, server("cp-1", "gw.example"))
	reg := prometheus.NewPedanticRegistry()
	both, err := pki.NewReloader(files(t, pair, prod), pki.Deps{Use: "agent_listener", Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	cfg := files(t, pair)
	alone, err := pki.NewReloader(cfg, pki.Deps{Use: "client_listener", Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(reg, "llmgw_pki_certificate_expiry_timestamp_seconds"); n != 0 {
		t.Errorf("%d certificates before any is there", n)
	}
	for _, r := range []*pki.Reloader{both, alone} {
		if _, err := r.Load(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, cfg.CertFile, nil)
	if _, err := alone.Load(); err == nil {
		t.Error("an empty file is a certificate")
	}
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var name strings.Builder
			name.WriteString(f.GetName())
			for _, l := range m.GetLabel() {
				name.WriteString(" " + l.GetValue())
			}
			got[name.String()] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"llmgw_pki_certificate_expiry_timestamp_seconds agent_listener":  float64(pair.Leaf.NotAfter.Unix()),
		"llmgw_pki_certificate_expiry_timestamp_seconds client_listener": float64(pair.Leaf.NotAfter.Unix()),
		"llmgw_pki_authority_expiry_timestamp_seconds agent_listener":    float64(prod.Certificate().NotAfter.Unix()),
		"llmgw_pki_files_unusable agent_listener certificate":            0,
		"llmgw_pki_files_unusable agent_listener authority":              0,
		"llmgw_pki_files_unusable client_listener certificate":           1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if _, err := pki.NewReloader(cfg, pki.Deps{Use: "client_listener", Registerer: reg}); err == nil {
		t.Error("two Reloaders of one use are registered")
	}
}

// A fleet goes from one authority to the next, and both sides renew meanwhile,
// without a handshake that fails.
func TestReloadUnderLoad(t *testing.T) {
	const rounds = 4
	was := newAuthority(t, "prod")
	serverFiles := files(t, issue(t, was, 0, server("cp-1", "gw.example")), was)
	nodeFiles := files(t, issue(t, was, 0, node("gpu-1")), was)
	sides := []*pki.Reloader{loaded(t, serverFiles), loaded(t, nodeFiles)}
	listener := serverConfig(t, sides[0], pki.ServerOptions{Clients: pki.ClientsRequired, Roles: []pki.Role{pki.RoleNode}})

	var stop atomic.Bool
	var wg sync.WaitGroup
	var shaken [4]int // handshakes of each worker; guarded by more.L
	more := sync.NewCond(new(sync.Mutex))
	for i := range shaken {
		wg.Go(func() {
			for !stop.Load() {
				for _, r := range sides {
					_, _ = r.Load() // at any moment; halfway is an error, and changes nothing
				}
				client, err := sides[1].Client("gw.example")
				if err != nil {
					t.Error(err)
					client = new(tls.Config)
				}
				if _, serverErr, clientErr := shake(listener, client); serverErr != nil || clientErr != nil {
					t.Errorf("server %v, client %v", serverErr, clientErr)
				}
				more.L.Lock()
				shaken[i]++
				more.L.Unlock()
				more.Broadcast()
			}
		})
	}
	// settle returns when every worker has begun a handshake with what the files
	// hold, and ended it.
	settle := func() {
		more.L.Lock()
		before := shaken
		for slices.ContainsFunc([]int{0, 1, 2, 3}, func(i int) bool { return shaken[i] < before[i]+2 }) {
			more.Wait()
		}
		more.L.Unlock()
		for _, r := range sides {
			if _, err := r.Load(); err != nil {
				t.Error(err)
			}
		}
	}
	replace := func(name string, data []byte) {
		write(t, name+".new", data)
		if err := os.Rename(name+".new", name); err != nil {
			t.Error(err)
		}
	}
	for range rounds {
		next := newAuthority(t, "prod")
		for _, f := range []pki.Config{serverFiles, nodeFiles} {
			replace(f.CAFile, bundle(t, was, next))
		}
		settle()
		for f, req := range map[pki.Config]pki.Request{serverFiles: server("cp-1", "gw.example"), nodeFiles: node("gpu-1")} {
			if err := pki.WritePair(f.CertFile, f.KeyFile, issue(t, next, 0, req), true); err != nil {
				t.Error(err)
			}
		}
		settle()
		for _, f := range []pki.Config{serverFiles, nodeFiles} {
			replace(f.CAFile, bundle(t, next))
		}
		settle()
		was = next
	}
	stop.Store(true)
	wg.Wait()
	if _, serverErr, clientErr := shake(listener, clientConfig(t, sides[1], "gw.example")); serverErr != nil || clientErr != nil {
		t.Errorf("at the end: server %v, client %v", serverErr, clientErr)
	}
}
