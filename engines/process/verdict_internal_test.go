package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
)

func testRole(change func(*role)) role {
	p := role{
		name:  Engine,
		ready: engines.Readiness{Log: `^up$`, Timeout: time.Minute, Stalled: 20 * time.Second},
		logs: []engines.LogRule{
			{Match: `CUDA out of memory`, Phase: engines.PhaseFailed, Reason: "no room on the card"},
			{Match: `Loading`, Phase: engines.PhaseLoading},
			{Match: `Capturing`, Phase: engines.PhaseWarming},
			{Match: `failed`, Phase: engines.PhaseFailed, Reason: "the engine core failed"},
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// TestVerdict drives a verdict with any sequence of events and holds it against
// what was promised, said once more in other words.
func TestVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		probed := rapid.Bool().Draw(t, "probed")
		once := rapid.Bool().Draw(t, "once")
		stalled := rapid.SampledFrom([]time.Duration{0, 20 * time.Second}).Draw(t, "stalled")
		giveUp := rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "give up")
		p := testRole(func(p *role) {
			p.once, p.ready.Stalled = once, stalled
			if probed {
				p.ready.Probe = &engines.Probe{}
			}
		})
		begun := time.Unix(1000, 0)
		now := begun
		v, err := newVerdict(p, giveUp, begun)
		if err != nil {
			t.Fatal(err)
		}
		var saidUp, answered, cuda, failed bool
		progress, failedAt := begun, time.Time{}
		phase := engines.PhaseStarting
		var exit *Exit
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 8000).Draw(t, "ms")) * time.Millisecond)
			switch event := rapid.SampledFrom([]string{"up", "CUDA out of memory", "Loading", "Capturing", "core failed", "noise", "refused", "503", "200", "tick", "end"}).Draw(t, "event"); event {
			case "refused":
				v.answered(now, answer{text: event})
			case "503", "200":
				v.answered(now, answer{spoke: true, ready: event == "200", text: event})
				progress, answered = now, answered || event == "200"
			case "tick":
			case "end":
				exit = &Exit{Known: rapid.Bool().Draw(t, "known")}
				if exit.Known {
					exit.Code = rapid.IntRange(0, 2).Draw(t, "code")
				}
				v.ended(*exit)
			default:
				v.output(now)
				v.line(now, event)
				progress = now
				saidUp = saidUp || event == "up" && !probed
				if (event == "CUDA out of memory" || event == "core failed") && !failed {
					failedAt, failed = now, true
				}
				cuda = cuda || event == "CUDA out of memory"
				if event == "Loading" {
					phase = max(phase, engines.PhaseLoading)
				} else if event == "Capturing" {
					phase = max(phase, engines.PhaseWarming)
				}
			}
			ready, next, failure := v.decide(now)
			if ready && failure != nil {
				t.Fatalf("ready and failed: %v", failure)
			}
			if !ready && failure == nil && !next.After(now) {
				t.Fatalf("undecided until %v, which has passed at %v", next, now)
			}
			var want error
			switch {
			case exit != nil:
				if clean := once && *exit == (Exit{Known: true}); ready != clean || !clean && !errors.Is(failure, ErrExited) {
					t.Fatalf("ended with %v: ready %v, %v", exit, ready, failure)
				}
				return
			case !once && (saidUp || answered):
				if !ready {
					t.Fatalf("it is ready, and is said to be not: %v", failure)
				}
				return
			case failed && now.Sub(failedAt) >= giveUp:
				want = ErrGaveUp
			case now.Sub(begun) >= p.ready.Timeout:
				want = ErrTimeout
			case stalled > 0 && now.Sub(progress) >= stalled:
				want = ErrStalled
			}
			if failed && want != nil {
				want = ErrGaveUp // it is known better than by a clock
			}
			if ready || !errors.Is(failure, want) {
				// Both bounds at once may go by either name.
				if !(failure != nil && want != nil && !failed) {
					t.Fatalf("ready %v, %v, want %v", ready, failure, want)
				}
			}
			if v.phase != phase {
				t.Fatalf("phase %v, want %v", v.phase, phase)
			}
			if failure != nil {
				e := v.failure(now, failure, "s", Engine, &tail{most: 1}, 1)
				if cuda && e.Reason != "no room on the card" {
					t.Fatalf("reason %q: the rule that stands first knows best", e.Reason)
				}
				if e.After != now.Sub(begun) || e.InPhase < 0 || e.InPhase > e.After {
					t.Fatalf("after %v, in phase %v", e.After, e.InPhase)
				}
				return
			}
		}
	})
}

// scene is a process that a test plays: its log is a file, its end a channel.
type scene struct {
	t    *testing.T
	p    *proc
	file *os.File
}

func play(t *testing.T, cfg Config, change func(*role)) *scene {
	t.Helper()
	r, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "engine.log")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	output, err := r.openLog(path, "sk-canary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { output.close(); file.Close() })
	return &scene{t: t, file: file, p: &proc{role: testRole(change), begun: time.Now(), output: output, exited: make(chan struct{})}}
}

func (s *scene) say(text string) {
	if _, err := s.file.WriteString(text); err != nil {
		s.t.Error(err)
	}
}

// follow returns how it ended, and when.
func (s *scene) follow(cfg Config, ask func(context.Context) answer) (*verdict, time.Duration, error) {
	begun := time.Now()
	v, err := newVerdict(s.p.role, cfg.GiveUp, begun)
	if err != nil {
		s.t.Fatal(err)
	}
	class := s.p.follow(s.t.Context(), v, ask, cfg, func() bool { return false })
	return v, time.Since(begun), class
}

func TestFollowStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		s := play(t, cfg, nil)
		go func() {
			time.Sleep(15 * time.Second) // of the bubble's time
			s.say("Loading safetensors: 10%\r")
		}()
		v, after, class := s.follow(cfg, nil)
		if !errors.Is(class, ErrStalled) || after < 35*time.Second || after > 36*time.Second {
			t.Errorf("%v after %v, want stalled 20s after the last output", class, after)
		}
		e := v.failure(time.Now(), class, "s", Engine, &s.p.output.tail, 5)
		if e.Phase != engines.PhaseStarting {
			t.Errorf("a part of a line counts as a line: %+v", e)
		}
	})
}

func TestFollowLoadingIsNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		s := play(t, cfg, func(p *role) { p.ready.Probe = &engines.Probe{} })
		s.say("Loading weights\n")
		begun := time.Now()
		ask := func(context.Context) answer {
			if time.Since(begun) < 50*time.Second {
				return answer{spoke: true, text: "status 503"}
			}
			return answer{spoke: true, ready: true, text: "status 200"}
		}
		v, after, class := s.follow(cfg, ask)
		if class != nil || after < 50*time.Second || after > 52*time.Second || v.phase != engines.PhaseLoading {
			t.Errorf("%v after %v in phase %v", class, after, v.phase)
		}
	})
}

func TestFollowTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		s := play(t, cfg, func(p *role) { p.ready.Probe, p.ready.Stalled = &engines.Probe{}, 0 })
		s.say("Loading weights with key sk-canary\n")
		hangs := func(ctx context.Context) answer {
			<-ctx.Done()
			return answer{text: "none"}
		}
		v, after, class := s.follow(cfg, hangs)
		if !errors.Is(class, ErrTimeout) || after != time.Minute {
			t.Errorf("%v after %v, want a minute", class, after)
		}
		e := v.failure(time.Now(), class, "s", Engine, &s.p.output.tail, 5)
		const want = "process: shard s: engine was not ready in time after 1m0s, for 1m0s in phase loading; last output: Loading weights with key {{llmgw.secret}}"
		if e.Error() != want {
			t.Errorf("error is\n%s\nwant\n%s", e, want)
		}
	})
}

func TestFollowWaitsForTheEndOfWhoFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		s := play(t, cfg, nil)
		s.say("engine core failed\n")
		go func() {
			time.Sleep(3 * time.Second)
			s.say("CUDA out of memory\nwithout an end")
			s.p.exit = Exit{Known: true, Code: 1}
			close(s.p.exited)
		}()
		v, after, class := s.follow(cfg, nil)
		if !errors.Is(class, ErrExited) || after != 3*time.Second {
			t.Errorf("%v after %v", class, after)
		}
		e := v.failure(time.Now(), class, "s", Engine, &s.p.output.tail, 5)
		if e.Reason != "no room on the card" || len(e.Lines) != 3 || e.Lines[2] != "without an end" {
			t.Errorf("failure is %+v", e)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		s := play(t, cfg, nil)
		s.say("engine core failed\n")
		if _, after, class := s.follow(cfg, nil); !errors.Is(class, ErrGaveUp) || after != cfg.GiveUp {
			t.Errorf("%v after %v, want %v", class, after, cfg.GiveUp)
		}
	})
}
