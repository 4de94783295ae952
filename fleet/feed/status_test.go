package feed_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
)

func status(model string, state feed.ModelState) feed.ModelStatus {
	return feed.ModelStatus{Model: model, State: state}
}

func setStatuses(t *testing.T, p *feed.Publisher, all ...feed.ModelStatus) {
	t.Helper()
	if err := p.SetStatuses(all); err != nil {
		t.Fatal(err)
	}
}

// shows checks the states that a router knows, as in "m=loading n=off".
func shows(t *testing.T, g *gateway, want string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, s := range g.state().Statuses {
		got = append(got, s.Model+"="+s.State.String())
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("statuses %q, want %q", s, want)
	}
}

// How models stand goes to routers, and ages there.
func TestStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		setStatuses(t, p, status("m", feed.ModelAsleep), status("n", feed.ModelOff), status("gone", feed.ModelOff))
		set(t, p, []string{"n", "m"})
		shows(t, g, "m=asleep n=off")

		time.Sleep(time.Second)
		all := feed.ModelStatus{
			Model: "m", State: feed.ModelFailing, Ready: engines.Known(time.Minute), Progress: "weights 3/8", Reason: "out of memory",
			Retry: engines.Known(10 * time.Second), At: time.Now(),
		}
		everyFieldIsSet(t, all)
		setStatuses(t, p, status("n", feed.ModelOff), all)
		synctest.Wait()
		got, known := g.state().Status("m")
		if diff := cmp.Diff(fmt.Sprint(all), fmt.Sprint(got)); diff != "" || !known {
			t.Errorf("%t %s", known, diff)
		}
		if _, known := g.state().Status("x"); known {
			t.Error("x has a status")
		}
		time.Sleep(20 * time.Second)
		if left := got.ReadyIn(time.Now()); !left.Is(40 * time.Second) {
			t.Errorf("ready in %v, want 40s", left)
		}
		if left := got.RetryIn(time.Now()); !left.Is(0) {
			t.Errorf("retry in %v, want 0s", left)
		}
		// Who comes later is told what is left.
		late := follow(t, config("r2"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		if s, _ := late.state().Status("m"); !s.Ready.Is(40*time.Second) || !s.Retry.Is(0) || s.At != time.Now() {
			t.Errorf("%+v", s)
		}
		// A model that leaves the catalog leaves, and so does what is said no more.
		if err := p.SetModels(models("n")); err != nil {
			t.Fatal(err)
		}
		shows(t, g, "n=off")
		time.Sleep(time.Second)
		setStatuses(t, p)
		shows(t, g, "")
		shows(t, late, "")
	})
}

// Of another control plane, or of the copy on the disk, no status is kept.
func TestStatusesAreOfTheirMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("r1")
		cfg.File = filepath.Join(t.TempDir(), "copy")
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"})
		setStatuses(t, p, status("m", feed.ModelLoading))
		g := follow(t, cfg, feed.Deps{Sources: []feed.Source{p.Local()}})
		time.Sleep(time.Second) // what is said in a row is gathered
		shows(t, g, "m=loading")
		if err := p.Lead("c", 2); err != nil { // it leads on
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		shows(t, g, "m=loading")
		p.Resign()
		time.Sleep(time.Second)
		shows(t, g, "m=loading") // what was known
		if err := p.Lead("c", 3); err != nil {
			t.Fatal(err)
		}
		if err := p.SetEntries(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		shows(t, g, "")
		setStatuses(t, p, status("m", feed.ModelLoading))
		shows(t, g, "m=loading")
		time.Sleep(2 * time.Second)
		g.end()
		p.Resign()
		again := follow(t, cfg, feed.Deps{Sources: []feed.Source{p.Local()}})
		if s := again.state(); len(s.Models) != 1 || len(s.Statuses) != 0 || !s.Unverified {
			t.Errorf("%+v", s)
		}
	})
}

// That time passes is no version, and progress is one every two seconds.
func TestStatusesAreNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		s := status("m", feed.ModelLoading)
		versions := func(each func(left time.Duration)) uint64 {
			synctest.Wait()
			before := g.state().Version.Seq
			for left := time.Minute; left > 0; left -= 100 * time.Millisecond {
				each(left)
				setStatuses(t, p, s)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			return g.state().Version.Seq - before
		}
		if n := versions(func(left time.Duration) { s.Ready = engines.Known(left) }); n != 1 {
			t.Errorf("%d versions of what time alone changes", n)
		}
		if n := versions(func(left time.Duration) { s.Progress = left.String() }); n < 25 || n > 32 {
			t.Errorf("%d versions of progress in a minute", n)
		}
		if got, _ := g.state().Status("m"); got.Progress != s.Progress {
			t.Errorf("ends at %q, want %q", got.Progress, s.Progress)
		}
		if n := versions(func(left time.Duration) { s.State = feed.ModelAsleep + feed.ModelState(left/(10*time.Second)%2) }); n < 5 {
			t.Errorf("%d versions of states", n)
		}
		// Of two that are the same the list of models is one, too.
		was := g.state()
		s.State = feed.ModelServing
		setStatuses(t, p, s)
		synctest.Wait()
		if is := g.state(); is == was || &is.Models[0] != &was.Models[0] {
			t.Error("the models were read again")
		}
	})
}

// What cannot be is named and left out; texts are made fit.
func TestStatusesAtFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m", "n"})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		long := status("m", feed.ModelFailing)
		long.Reason, long.Progress = "  no\nroom \x1b[31m\xff"+strings.Repeat("é", 600), " "
		err := p.SetStatuses([]feed.ModelStatus{long, long, {Model: "n"}, {Model: "n", State: 99}, {State: feed.ModelOff}})
		for _, want := range []string{`status of model "m": it has two`, `status of model "n": it has no state`, `status of model "": the name is empty`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v; want %q", err, want)
			}
		}
		time.Sleep(time.Second) // what comes right after a version is gathered
		shows(t, g, "m=failing")
		got, _ := g.state().Status("m")
		if !strings.HasPrefix(got.Reason, "no room  [31mé") || len(got.Reason) > feed.MaxTextBytes || len(got.Reason) < feed.MaxTextBytes-4 || got.Progress != "" {
			t.Errorf("%q %q", got.Reason, got.Progress)
		}
	})
}
