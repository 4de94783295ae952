package feed_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
)

// A model that this router cannot read is missing, is told once, and everything
// else is as it should be; it stays in the copy.
func TestModelsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frame := &apipb.WatchFeedResponse{Version: &apipb.FeedVersion{Cluster: "c", Term: 1, Seq: 1}, Frame: &apipb.WatchFeedResponse_Snapshot{Snapshot: &apipb.FeedSnapshot{Models: []*apipb.FeedModel{
			{Name: "new", Definition: []byte("name: new\ncontext_tokens: [1, 2]\n")},
			{Name: "m", Definition: []byte("name: m\na_key_of_the_future: 1\n")},
			{Name: "wrong", Definition: []byte("name: other\n")},
		}}}}
		var log lines
		cfg := config("r1")
		cfg.File = filepath.Join(t.TempDir(), "feed")
		g := follow(t, cfg, feed.Deps{Sources: []feed.Source{&recording{welcomed: 1, frames: []*apipb.WatchFeedResponse{frame}}}, Logger: log.logger()})
		time.Sleep(time.Minute)
		check := func(s *feed.State) {
			t.Helper()
			if diff := cmp.Diff([]string{"new", "wrong"}, s.Unread); diff != "" || len(s.Models) != 1 || s.Models[0].Name != "m" {
				t.Error(diff, s.Models)
			}
		}
		check(g.state())
		if n := strings.Count(log.String(), "cannot be read by this router"); n != 2 {
			t.Errorf("%d lines: %s", n, log.String())
		}
		g.end()
		g = follow(t, cfg, feed.Deps{Sources: []feed.Source{&recording{welcomed: 1}}})
		check(g.state())
	})
}

// A router that starts without a control plane serves from its copy, marks it, and
// takes no former leader for its control plane.
func TestStartFromTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("r1")
		cfg.File = filepath.Join(t.TempDir(), "feed")
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		if err := p.Lead("c", 3); err != nil {
			t.Fatal(err)
		}
		e := entry("m", 1)
		e.Facts = &feed.Facts{}
		set(t, p, []string{"m"}, e)
		p.Revoke(feed.Revocation{KeyID: "k", At: time.Now()})
		g := follow(t, cfg, feed.Deps{Sources: []feed.Source{p.Local()}})
		time.Sleep(10 * time.Second)
		if s := g.state(); s.Unverified {
			t.Error("what the control plane says is unverified")
		}
		v := g.state().Version
		if err := p.Lead("c", 9); err != nil { // nothing but the term
			t.Fatal(err)
		}
		p.Resign()
		g.end()
		info, err := os.Stat(cfg.File)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v; it has secrets in it", info.Mode(), err)
		}

		none := sourceFuncs{"none", func(context.Context, *apipb.WatchFeedRequest) (feed.Stream, error) {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("no route"))
		}}
		var log lines
		to := &switched{}
		to.set(none)
		g = follow(t, cfg, feed.Deps{Sources: []feed.Source{to}, Logger: log.logger()})
		holds(t, g, v, []string{"m"}, e)
		s := g.state()
		if !s.Unverified || len(s.Revoked) != 1 || g.follower.Stats().CopiedAt.IsZero() {
			t.Errorf("%+v", s)
		}
		if got, _ := s.Entry("m-1"); got.Secret.Reveal() != "secret" {
			t.Error("the secret is lost")
		}
		if strings.Contains(log.String(), "secret\"") || !strings.Contains(log.String(), "serving from the copy") {
			t.Error(log.String())
		}
		time.Sleep(10 * time.Minute)
		holds(t, g, v, []string{"m"}, e)

		if err := p.Lead("c", 10); err != nil {
			t.Fatal(err)
		}
		set(t, p, nil, e)
		to.set(p.Local())
		time.Sleep(11 * time.Second)
		holds(t, g, feed.Version{Cluster: "c", Term: 10, Seq: 1}, []string{"m"}, e)
		if g.state().Unverified {
			t.Error("it is still unverified")
		}
	})
}

// Copies that cannot be used are told and replaced; a router starts all the same.
func TestCopiesThatCannotBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := config("r1")
		cfg.File = filepath.Join(dir, "feed")
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		g := follow(t, cfg, feed.Deps{Sources: []feed.Source{p.Local()}})
		time.Sleep(2 * time.Second)
		g.end()
		good, err := os.ReadFile(cfg.File)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(good)
		flipped[len(flipped)-3] ^= 1
		for _, tt := range []struct {
			name, want string
			data       []byte
		}{
			{"empty", "its first line is missing", nil},
			{"cut off", "it was cut off", good[:len(good)-10]},
			{"changed", "it was changed", flipped},
			{"of a newer format", "it has format 2, and this router knows 1", bytes.Replace(good, []byte("llmgw-feed 1 "), []byte("llmgw-feed 2 more "), 1)},
			{"another's", "is the file another one's", []byte("# hello\n")},
			{"endless", "its first line is missing", bytes.Repeat([]byte("a"), 1000)},
		} {
			t.Log(tt.name)
			if err := os.WriteFile(cfg.File, tt.data, 0o644); err != nil {
				t.Fatal(err)
			}
			var log lines
			reg := prometheus.NewRegistry()
			to := &switched{}
			to.set(&recording{welcomed: 1})
			g := follow(t, cfg, feed.Deps{Sources: []feed.Source{to}, Logger: log.logger(), Registerer: reg})
			if g.state().Known() || !strings.Contains(log.String(), tt.want) || strings.Count(log.String(), "level=ERROR") != 1 {
				t.Errorf("%v, %s", g.state().Version, log.String())
			}
			to.set(p.Local())
			time.Sleep(30 * time.Second)
			holds(t, g, at(1), []string{"m"}, entry("m", 1))
			g.end()
			if now, err := os.ReadFile(cfg.File); err != nil || !bytes.HasPrefix(now, []byte("llmgw-feed 1 ")) {
				t.Errorf("%.20q, %v", now, err)
			}
			if info, err := os.Stat(cfg.File); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		}
		cfg.Cluster = "other"
		var log lines
		g = follow(t, cfg, feed.Deps{Sources: []feed.Source{&recording{welcomed: 1, cluster: "other"}}, Logger: log.logger()})
		if g.state().Known() || !strings.Contains(log.String(), "the copy of the feed is of another cluster") {
			t.Error(log.String())
		}
		// A place where it cannot be saved stops nothing.
		cfg.Cluster, cfg.File = "", filepath.Join(dir, "none", "feed")
		g = follow(t, cfg, feed.Deps{Sources: []feed.Source{p.Local()}, Logger: log.logger()})
		time.Sleep(90 * time.Second)
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		if n := strings.Count(log.String(), "the copy of the feed cannot be saved"); n != 2 {
			t.Errorf("%d lines in %s", n, log.String())
		}
	})
}
