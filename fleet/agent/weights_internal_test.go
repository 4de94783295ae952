package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/storage/weights/weightstest"
)

// looking is a looker that runs, and what it has told.
type looking struct {
	*looker
	mu   sync.Mutex
	told []*fleetpb.WeightsFound // in order
	news chan struct{}           // has an element when there is something
}

func look(t *testing.T, cfg Weights) *looking {
	t.Helper()
	l := &looking{news: make(chan struct{}, 1)}
	if cfg.Interval == 0 {
		cfg.Interval = time.Hour
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	l.looker = newLooker(cfg, slog.New(slog.DiscardHandler), func(_ uint64, f *fleetpb.WeightsFound) {
		l.mu.Lock()
		l.told = append(l.told, f)
		l.mu.Unlock()
		select {
		case l.news <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	go func() { defer close(done); l.run(t.Context()) }()
	t.Cleanup(func() { <-done })
	return l
}

// answers are the newest of each key, once there are so many.
func (l *looking) answers(t *testing.T, n int) map[string]*fleetpb.WeightsFound {
	t.Helper()
	for {
		out := map[string]*fleetpb.WeightsFound{}
		l.mu.Lock()
		for _, f := range l.told {
			out[f.GetKey()] = f
		}
		l.mu.Unlock()
		if len(out) >= n {
			return out
		}
		select {
		case <-l.news:
		case <-t.Context().Done():
			t.Fatal("it does not answer")
		}
	}
}

// wanted are sources that are looked for, each under its own name.
func wanted(sources ...string) (out []*fleetpb.WeightsWanted) {
	for _, s := range sources {
		source, revision, _ := strings.Cut(s, "@")
		out = append(out, &fleetpb.WeightsWanted{Key: s, Source: source, Revision: revision})
	}
	return out
}

// What is in the directories is told as it is: whole, in part, broken, or nothing;
// and what is outside of them, by whatever path or link, is not looked at.
func TestLook(t *testing.T) {
	root := t.TempDir()
	at := func(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		must(os.MkdirAll(filepath.Dir(path), 0o700))
		must(os.WriteFile(path, []byte(text), 0o600))
	}
	tiny := weightstest.Tiny()
	must(tiny.Write(at("models", "tiny.gguf")))
	must(tiny.Write(at("models", "dir", "model.gguf")))
	must(tiny.Write(at("outside", "secret.gguf")))
	must(tiny.Write(at("models", "cut.gguf")))
	must(os.Truncate(at("models", "cut.gguf"), 2000))
	must(os.Mkdir(at("models", "empty"), 0o700))
	write(at("models", "torn", "model-00001-of-00002.safetensors.part"), "x")
	header, _ := tiny.GGUF()
	write(at("models", "lies.gguf"), string(bytes.Replace(header, []byte("llama.block_count\x04\x00\x00\x00\x02"), []byte("llama.block_count\x04\x00\x00\x00\xff"), 1)[:64])+strings.Repeat("\xff", 4000))
	must(os.Symlink("../outside/secret.gguf", at("models", "leak.gguf")))
	must(os.Symlink("/etc/hostname", at("models", "passwd.gguf")))
	must(os.Symlink("loop.gguf", at("models", "loop.gguf")))
	must(os.Symlink("tiny.gguf", at("models", "link.gguf")))
	must(syscall.Mkfifo(at("models", "pipe.gguf"), 0o600))
	hub := at("hub", "models--meta--tiny")
	must(tiny.Write(filepath.Join(hub, "blobs", "abc")))
	must(os.MkdirAll(filepath.Join(hub, "snapshots", "c0ffee"), 0o700))
	must(os.Symlink("../../blobs/abc", filepath.Join(hub, "snapshots", "c0ffee", "model.gguf")))
	write(filepath.Join(hub, "refs", "main"), "c0ffee\n")
	write(filepath.Join(hub, "refs", "evil"), "../../../outside")
	must(os.Symlink(at("nowhere"), at("dangling")))

	const (
		present = fleetpb.WeightsState_WEIGHTS_STATE_PRESENT
		absent  = fleetpb.WeightsState_WEIGHTS_STATE_ABSENT
		partial = fleetpb.WeightsState_WEIGHTS_STATE_PARTIAL
		odd     = fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE
	)
	tests := map[string]struct {
		state  fleetpb.WeightsState
		reason string
	}{
		at("models", "tiny.gguf"):           {present, ""},
		at("models", "dir"):                 {present, ""},
		at("models", "link.gguf"):           {present, ""},
		at("models", "..", "models", "dir"): {present, ""}, // the same place by another name
		at("models", "cut.gguf"):            {partial, "incomplete"},
		at("models", "torn"):                {partial, "incomplete"},
		at("models", "empty"):               {absent, "none in the directory"},
		at("models", "none.gguf"):           {absent, "not there"},
		at("models", "lies.gguf"):           {odd, "lies.gguf"},
		at("models", "leak.gguf"):           {odd, "escapes"},
		at("models", "passwd.gguf"):         {odd, "escapes"},
		at("models", "loop.gguf"):           {odd, "loop.gguf"},
		at("models", "pipe.gguf"):           {odd, "pipe.gguf"},
		at("outside", "secret.gguf"):        {odd, "weights.dirs"},
		at("models") + "/../outside":        {odd, "weights.dirs"},
		at("models") + "-other/m.gguf":      {odd, "weights.dirs"},
		"/etc/passwd":                       {odd, "weights.dirs"},
		"meta/tiny":                         {present, ""},
		"meta/tiny@c0ffee":                  {present, ""},
		"meta/tiny@other":                   {absent, ""},
		"meta/tiny@evil":                    {absent, ""},
		"meta/other":                        {absent, ""},
		"../outside/secret.gguf":            {odd, "weights.dirs"},
		"tiny.gguf":                         {present, ""},
	}
	var sources []string
	for source := range tests {
		sources = append(sources, source)
	}
	l := look(t, Weights{Dirs: []string{at("models"), at("hub"), at("dangling"), at("missing")}})
	l.ask(1, wanted(sources...))
	got := l.answers(t, len(tests))
	for source, want := range tests {
		f := got[source]
		if f.GetState() != want.state || !strings.Contains(f.GetReason(), want.reason) || (want.state == present) != (f.GetReason() == "") {
			t.Errorf("%s: %v %q; want %v %q", source, f.GetState(), f.GetReason(), want.state, want.reason)
		}
		if (want.state == present) != (f.GetFacts() != nil) || f.GetShared() != "" {
			t.Errorf("%s: %v", source, f)
		}
	}
	if f := got[at("models", "tiny.gguf")]; f.GetFiles() != 1 || f.GetBytes() < 1000 || f.GetFacts().GetArchitecture() != "llama" || f.GetFacts().GetLayers()[0].GetCount() != 2 {
		t.Errorf("%v", f)
	}
}

// What was found is told once a session, what is asked for besides alone, and what
// changes on the disk when it is looked again. Nothing is told where no directory is
// configured.
func TestLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a.gguf"), filepath.Join(dir, "b.gguf")
		if err := weightstest.Tiny().Write(a); err != nil {
			t.Fatal(err)
		}
		l := look(t, Weights{Dirs: []string{dir}, Interval: time.Minute})
		count := func() int {
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			n := len(l.told)
			l.told = nil
			return n
		}
		step := func(what string, want int) {
			t.Helper()
			if n := count(); n != want {
				t.Errorf("%s: %d answers; want %d", what, n, want)
			}
		}
		l.ask(1, wanted(a))
		step("one", 1)
		l.ask(1, wanted(a, b))
		step("one more", 1)
		l.ask(2, wanted(a, b))
		step("another session", 2)
		time.Sleep(2 * time.Minute)
		step("as it was", 0)
		if err := weightstest.Tiny().Write(b); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(a); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		step("both changed", 2)
		l.ask(2, nil)
		step("nothing", 0)
		l.ask(2, wanted(b))
		step("wanted again", 1)

		none := look(t, Weights{})
		none.ask(1, wanted(a, b))
		synctest.Wait()
		if len(none.told) != 0 {
			t.Errorf("told %v without a directory", none.told)
		}
	})
}

// A filesystem that does not answer is said to, delays no other directory, is not
// asked again while it does not, and is when it does.
func TestLookAtADeadFiler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, alive := t.TempDir(), t.TempDir()
		for _, dir := range []string{dead, alive} {
			if err := weightstest.Tiny().Write(filepath.Join(dir, "m.gguf")); err != nil {
				t.Fatal(err)
			}
		}
		l := look(t, Weights{Dirs: []string{dead, alive}, Interval: time.Minute, Timeout: 5 * time.Second})
		release, reads := make(chan struct{}), 0
		for _, d := range l.dirs {
			if d.path == dead {
				d.before = func() { reads++; <-release }
			}
		}
		key := filepath.Join(dead, "m.gguf")
		l.ask(1, wanted(filepath.Join(alive, "m.gguf"), key, filepath.Join(dead, "other.gguf")))
		synctest.Wait()
		if f := l.answers(t, 1)[filepath.Join(alive, "m.gguf")]; f.GetState() != fleetpb.WeightsState_WEIGHTS_STATE_PRESENT {
			t.Errorf("the other directory: %v", f)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if f := l.answers(t, 3)[key]; f.GetState() != fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE || !strings.Contains(f.GetReason(), "does not answer") {
			t.Errorf("%v", f)
		}
		if reads != 1 {
			t.Errorf("it was asked %d times; want once", reads)
		}
		close(release)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := l.answers(t, 3)[key]; f.GetState() != fleetpb.WeightsState_WEIGHTS_STATE_PRESENT {
			t.Errorf("when it answers: %v", f)
		}
	})
}

func TestWeightsConfig(t *testing.T) {
	good := Weights{Dirs: []string{"/models"}, Interval: time.Minute, Timeout: time.Second}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Weights){
		"weights.dirs[0]: \"models\" is not absolute":   func(w *Weights) { w.Dirs = []string{"models"} },
		"weights.dirs[1]: \"/models/\" stands there":    func(w *Weights) { w.Dirs = []string{"/models", "/models/"} },
		"weights.dirs[0]: \"/\" is the whole machine":   func(w *Weights) { w.Dirs = []string{"/"} },
		"weights.dirs: 65 directories; want at most 64": func(w *Weights) { w.Dirs = strings.Split(strings.Repeat("/x ", 65), " ")[:65] },
		"weights.interval: 1s is too short":             func(w *Weights) { w.Interval = time.Second },
		"weights.timeout: 0s is not positive":           func(w *Weights) { w.Timeout = 0 },
	} {
		bad := good
		change(&bad)
		if err := bad.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
