package auth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// A key that is used in every way that there is, rightly and wrongly, shows in
// no log, error, metric, answer, audit row or printed value, though all of them
// say something.
func TestCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&sink, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
		reg := prometheus.NewRegistry()
		store := newStore()
		a := newAuth(t, store, func(_ *auth.Config, d *auth.Deps) { d.Logger, d.Registerer = log, reg })
		start(t, a)
		issuer := newIssuer(t, store, func(d *auth.IssuerDeps) {
			d.Random, d.Told, d.Now = canaryRandom(), a, nil
		})
		issued, err := issuer.Create(t.Context(), auth.Spec{Name: "n"}, me)
		if err != nil {
			t.Fatal(err)
		}
		key := issued.Secret.Reveal()
		if key != canary(t).Reveal() {
			t.Fatal("the issuer made another key than the canary")
		}
		fmt.Fprintf(&sink, "%v %+v %#v", issued, issued, issued)
		log.Info("issued", "issued", issued, "key", issued.Secret)
		if b, err := json.Marshal(issued); err == nil {
			sink.Write(b)
		}

		h := a.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, _ := auth.FromContext(r.Context())
			log.Info("served", "identity", id)
			fmt.Fprintf(w, "%v %+v %v", id.LogValue(), id, r.Context())
		}), auth.DefaultExempt(), func(w http.ResponseWriter, r *http.Request, err *auth.RefusedError) {
			log.Info("refused", "err", err, "url", r.URL, "headers", r.Header, "path", r.URL.Path, "uri", r.RequestURI)
			fmt.Fprintf(&sink, "%v %+v %#v", err, err, err)
			w.WriteHeader(err.Status())
			_, _ = io.WriteString(w, err.Message())
		})
		outcomes := map[int]int{}
		send := func(target string, header ...string) {
			u, err := url.ParseRequestURI(target)
			if err != nil {
				t.Fatal(err)
			}
			r := request("")
			r.URL, r.RequestURI = u, target
			for i := 0; i < len(header); i += 2 {
				r.Header.Add(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			outcomes[w.Code]++
			fmt.Fprint(&sink, w.Body, w.Header())
		}
		all := func() {
			send("/v1/models", "Authorization", "Bearer "+key)
			send("/v1/models", "X-Api-Key", key)
			send("/v1/models", "Authorization", key)
			send("/v1/models", "Authorization", "Basic "+key)
			send("/v1/models", "Authorization", "Bearer "+key+"x")
			send("/v1/models", "Authorization", "Bearer "+key[:54])
			send("/v1/models", "Authorization", "Bearer "+key, "X-Api-Key", key[1:])
			send("/v1/models?key="+key, "Cookie", key, "Referer", "http://x/?key="+key)
			send("/v1/models?api_key="+key, "X-Api-Key", key)
			send("/" + key + "/v1")
			send("/%6clmgw_" + key[6:] + "/v1")
			time.Sleep(time.Minute)
		}
		all()
		store.set(func(s *memStore) { s.fail = errDown })
		a.Forget(issued.Key.ID)
		all()
		store.set(func(s *memStore) { s.fail = nil })
		time.Sleep(time.Minute)
		rotated, err := issuer.Rotate(t.Context(), issued.Key.ID, auth.Rotation{}, me)
		if err == nil {
			log.Info("rotated", "issued", rotated)
		}
		all()
		if _, err := issuer.Revoke(t.Context(), key, me); err != nil { // an ID is wanted, and people make mistakes
			fmt.Fprint(&sink, "revoke: ", err)
		}
		if _, err := issuer.Create(t.Context(), auth.Spec{Owner: key, Budget: key, Models: []string{key}}, me); err != nil {
			fmt.Fprint(&sink, err)
		}
		for _, row := range store.audits {
			fmt.Fprintf(&sink, "%+v %s %s", row, row.Before, row.After)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			_, _ = expfmt.MetricFamilyToText(&sink, f)
		}
		if spilled(t, sink.String()) {
			t.Error("the key shows")
		}
		if outcomes[200] == 0 || outcomes[400] == 0 || outcomes[401] == 0 || outcomes[503] == 0 || sink.Len() < 10_000 || len(store.audits) < 3 {
			t.Errorf("the test saw too little: %v, %d bytes, %d audit rows", outcomes, sink.Len(), len(store.audits))
		}
	})
}

// canaryRandom makes the canary first.
func canaryRandom() io.Reader {
	return io.MultiReader(bytes.NewReader(bytes.Repeat([]byte("canary-in-a-coal-mine"), 64)[:64]), strings.NewReader(strings.Repeat("another one follows ", 1000)))
}

// However many requests are refused, the log stays short, and says how many it
// left out.
func TestRefusalsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink bytes.Buffer
		store := newStore()
		revoked := store.add(t, storage.Key{ID: "key_r", RevokedAt: time.Now()})
		reg := prometheus.NewRegistry()
		a := newAuth(t, store, func(_ *auth.Config, d *auth.Deps) {
			d.Logger, d.Registerer = slog.New(slog.NewTextHandler(&sink, nil)), reg
		})
		start(t, a)
		for range 1000 {
			try(t, a, "", auth.ErrMissing)
			try(t, a, revoked, auth.ErrUnknown)
			time.Sleep(20 * time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(sink.String()), "\n")
		if len(lines) != 4 {
			t.Errorf("%d lines in 20 s, want one for each reason in 10 s:\n%s", len(lines), sink.String())
		}
		for _, want := range []string{"reason=missing", "reason=revoked key=key_r", "since_last=499", "remote=192.0.2.1:1234"} {
			if !strings.Contains(sink.String(), want) {
				t.Errorf("%s is not in\n%s", want, sink.String())
			}
		}
		m := gather(t, reg)
		if m["llmgw_auth_requests_total{missing}"] != 1000 || m["llmgw_auth_requests_total{revoked}"] != 1000 || m["llmgw_auth_requests_total{ok}"] != 0 {
			t.Errorf("counted %v", m)
		}
	})
}
