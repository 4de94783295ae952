package sim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// An engine that sleeps computes nothing, forgets what it had in its cache and says
// that it sleeps; woken, it goes on with what waited.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sim.DefaultConfig()
		cfg.SleepMode, cfg.WakeTime = true, 3*time.Second
		e := newEngine(t, cfg)
		is := func(want string) {
			t.Helper()
			if got := call(t, e, "GET", "/is_sleeping", "").Body.String(); !strings.Contains(got, `"is_sleeping":`+want) {
				t.Errorf("it says %s; want %s", got, want)
			}
		}
		state := func(want string) {
			t.Helper()
			if page := call(t, e, "GET", "/metrics", "").Body.String(); !strings.Contains(page, `sleep_state="`+want+`"} 1`) {
				t.Errorf("its page does not say %s", want)
			}
		}
		ask := func() chan int {
			done := make(chan int, 1)
			go func() { done <- call(t, e, "POST", "/v1/chat/completions", hello+`}`).Code }()
			return done
		}
		long := `{"model":"sim-8b","prompt":"` + strings.Repeat("one and the same text ", 100) + `","max_tokens":1}`
		cached := func() int {
			w := call(t, e, "POST", "/v1/completions", long)
			return into[struct{ Usage usage }](t, w.Body.String()).Usage.Details.Cached
		}
		cached()
		if n := cached(); n == 0 {
			t.Error("nothing is cached")
		}
		is("false")
		state("awake")
		running := ask()
		time.Sleep(50 * time.Millisecond)
		for range 2 { // the second changes nothing
			if w := call(t, e, "POST", "/sleep?level=1", ""); w.Code != 200 {
				t.Fatalf("sleep: %d %s", w.Code, w.Body)
			}
		}
		is("true")
		state("weights_offloaded")
		if code := call(t, e, "GET", "/health", "").Code; code != 200 {
			t.Errorf("asleep its health is %d", code)
		}
		came := ask()
		time.Sleep(time.Hour)
		select {
		case <-running:
			t.Error("it went on in its sleep")
		case <-came:
			t.Error("it answered in its sleep")
		default:
		}
		began := time.Now()
		if w := call(t, e, "POST", "/wake_up", ""); w.Code != 200 || time.Since(began) != 3*time.Second {
			t.Errorf("wake: %d after %v", w.Code, time.Since(began))
		}
		is("false")
		state("awake")
		if a, b := <-running, <-came; a != 200 || b != 200 {
			t.Errorf("what waited was answered %d and %d", a, b)
		}
		if n := cached(); n != 0 {
			t.Errorf("%d tokens were still cached", n)
		}
		if w := call(t, e, "POST", "/wake_up", ""); w.Code != 200 {
			t.Errorf("woken again: %d", w.Code)
		}
		if w := call(t, e, "POST", "/sleep?level=3", ""); w.Code != 400 {
			t.Errorf("level 3: %d", w.Code)
		}
		if w := call(t, e, "GET", "/sleep", ""); w.Code != 405 {
			t.Errorf("GET /sleep: %d", w.Code)
		}
	})
}

// The routes are closed unless they are asked for.
func TestSleepMode(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	if w := call(t, e, "POST", "/sleep", ""); w.Code != 404 {
		t.Errorf("sleep: %d", w.Code)
	}
}
