package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
)

// memory is a store in memory that can be away, for virtual time.
type memory struct {
	storage.UsageLog

	mu   sync.Mutex
	keys map[storage.KeyHash]storage.Key
	rows map[string]bool // guarded by mu
	away bool            // guarded by mu
}

func (m *memory) KeyByHash(_ context.Context, h storage.KeyHash) (storage.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.keys[h]
	switch {
	case m.away:
		return storage.Key{}, errAway
	case !ok:
		return storage.Key{}, storage.ErrNotFound
	}
	return k, nil
}

func (m *memory) InsertUsage(_ context.Context, rows []storage.Usage) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return 0, errAway
	}
	for i := range rows {
		m.rows[rows[i].RequestID] = true
	}
	return len(rows), nil
}

func (m *memory) set(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// The store is away for five minutes under load: no known key is refused, unknown
// ones get 503, memory stays as it is, what was dropped is counted to the last row,
// and it heals by itself.
func TestStoreAwayForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, buffered = awayRate, 50 * awayRate // requests a second; rows
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer end()
		var network simtest.Network
		engineCfg := sim.InstantConfig()
		engineCfg.Model = "m"
		engine, err := sim.New(engineCfg, sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := network.Listen("engine:80")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = engine.Serve(ctx, ln) })

		st := &memory{keys: map[storage.KeyHash]storage.Key{}, rows: map[string]bool{}}
		var texts [2]string // a key in use, and one that comes later
		for i := range texts {
			secret, err := auth.Mint(nil)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = secret.Reveal()
			st.keys[secret.Hash()] = storage.Key{ID: fmt.Sprint("k", i), Hash: secret.Hash(), CreatedAt: time.Now(), Revision: 1}
		}
		reg := prometheus.NewRegistry()
		keys, err := auth.New(auth.DefaultConfig(), auth.Deps{Keys: st, Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		cfg := usage.DefaultConfig()
		cfg.BufferRows, cfg.BatchRows = buffered, 100
		rec, err := usage.New(cfg, usage.Deps{Log: st, Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		gw, err := gateway.New(config(at("e", "http://engine")), gateway.Deps{
			Authenticator: keys, Usage: rec, Dial: network.Dial, Registerer: reg,
		})
		if err != nil {
			t.Fatal(err)
		}
		recording, stop := context.WithCancel(t.Context())
		var recorder sync.WaitGroup
		recorder.Go(func() { _ = rec.Run(recording) })
		wg.Go(func() { _ = keys.Run(ctx) })
		wg.Go(func() { _ = gw.Run(ctx) })

		served := 0
		ask := func(text string) int {
			w := &client{header: http.Header{}}
			gw.ServeHTTP(w, (&http.Request{
				Method: "POST", URL: &url.URL{Path: chatPath}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				Header: http.Header{"Authorization": {"Bearer " + text}}, Body: io.NopCloser(strings.NewReader(chatBody)), ContentLength: int64(len(chatBody)),
			}).WithContext(ctx))
			if w.status == 200 {
				served++
			}
			return w.status
		}
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		if s := ask(texts[0]); s != 200 {
			t.Fatalf("status %d", s)
		}
		time.Sleep(5 * time.Second) // the row is kept
		st.set(true)
		var full uint64
		for n := range 300 * rate {
			if s := ask(texts[0]); s != 200 {
				t.Fatalf("after %d requests without the store: %d", n, s)
			}
			if n%(10*rate) == 0 {
				if s := ask(texts[1]); s != 503 {
					t.Fatalf("an unknown key gets %d", s)
				}
			}
			if n == 100*rate {
				full = heap()
			}
			time.Sleep(time.Second / rate)
		}
		if now := heap(); now > full+4<<20 {
			t.Errorf("the heap has grown from %d to %d bytes", full, now)
		}
		st.set(false)
		time.Sleep(20 * time.Second) // longer than anybody leaves the store alone
		if s := ask(texts[1]); s != 200 {
			t.Errorf("a new key gets %d when the store is back", s)
		}
		stop()
		recorder.Wait()
		dropped := 0.0
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "llmgw_usage_dropped_total" {
					dropped += m.GetCounter().GetValue()
				}
			}
		}
		if len(st.rows)+int(dropped) != served || len(st.rows) != buffered+2 {
			t.Errorf("%d rows are kept and %v counted as dropped, of %d requests", len(st.rows), dropped, served)
		}
		if err := gw.Reload(config()); err != nil {
			t.Error(err)
		}
	})
}
