package server

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	server "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

func TestReload(t *testing.T) {
	var (
		out   bytes.Buffer
		level slog.LevelVar
		next  = testConfig()
		fault error
		plane = newFakePlane(nil)
		m     = testMetrics(t)
	)
	r := &reloader{
		read:  func() (server.Config, error) { return next, fault },
		apply: plane.Reload, level: &level, log: slog.New(slog.NewTextHandler(&out, nil)), metrics: m, running: testConfig(),
	}
	reload := func() string {
		out.Reset()
		r.reload()
		return out.String()
	}

	next.Log.Level, next.HTTP.MaxConnections, next.Listen = "debug", 7, ":9"
	said := reload()
	if level.Level() != slog.LevelDebug || len(plane.reloaded) != 1 {
		t.Errorf("level %v, %d reloads of the data plane; want DEBUG, 1", level.Level(), len(plane.reloaded))
	}
	if got := plane.reloaded[0]; got.HTTP.MaxConnections == 7 || got.Log.Level != "debug" {
		t.Errorf("applied what needs a restart: %+v", got.HTTP)
	}
	if !strings.Contains(said, "changed=[log.level]") || !strings.Contains(said, `keys="[listen http.max_connections]"`) {
		t.Errorf("log does not tell what changed and what needs a restart:\n%s", said)
	}

	// What needed a restart still does.
	if said := reload(); !strings.Contains(said, `keys="[listen http.max_connections]"`) {
		t.Errorf("a second reload forgets the restart:\n%s", said)
	}

	// A file with faults changes nothing, and each fault is named.
	next.Log.Level = "error"
	fault = strictyaml.Faults{{File: "f.yaml", Line: 1, Path: "a", Text: "bad"}, {File: "f.yaml", Line: 2, Path: "b", Text: "worse"}}
	if said := reload(); !strings.Contains(said, "f.yaml:1: a: bad") || !strings.Contains(said, "f.yaml:2: b: worse") {
		t.Errorf("log lacks a fault:\n%s", said)
	}
	fault, plane.refuse = nil, errors.New("no such file: ca.pem")
	if said := reload(); !strings.Contains(said, "no such file: ca.pem") {
		t.Errorf("log lacks the data plane's reason:\n%s", said)
	}
	if level.Level() != slog.LevelDebug || r.running.Log.Level != "debug" {
		t.Errorf("a refused reload changed the level to %v", level.Level())
	}
	if applied, refused := testutil.ToFloat64(m.reloads.WithLabelValues("applied")), testutil.ToFloat64(m.reloads.WithLabelValues("refused")); applied != 2 || refused != 2 {
		t.Errorf("counted %v applied, %v refused; want 2, 2", applied, refused)
	}
}
