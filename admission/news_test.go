package admission_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/admission"
)

// changing is a source that a test changes.
type changing struct {
	mu   sync.Mutex
	load []admission.EndpointLoad
}

func (c *changing) Load(_ string, dst *admission.Load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dst.Endpoints = append(dst.Endpoints, c.load...)
}

func (c *changing) set(change func(e *admission.EndpointLoad)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.load[0])
}

// TestNews: loads are read every interval, and what says nothing new is shown
// once a second.
func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &tape{}
		source := &changing{load: []admission.EndpointLoad{{ID: "a", InFlight: admission.Read(0)}}}
		ctl := newController(t, admission.Deps{Load: source, Recorder: rec}, nil)
		run(t, ctl)
		shown := func(d time.Duration) (n int) {
			rec.mu.Lock()
			rec.records = nil
			rec.mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			rec.mu.Lock()
			defer rec.mu.Unlock()
			for _, r := range rec.records {
				n += len(r.Loads)
			}
			return n
		}
		for range 3 {
			mustAdmit(t, ctl, one())
		}
		source.set(func(e *admission.EndpointLoad) { e.InFlight = admission.Read(3) })
		shown(time.Second)
		if n := shown(10 * time.Second); n < 9 || n > 11 {
			t.Errorf("a load that stands still was shown %d times in 10 s", n)
		}
		for what, change := range map[string]func(e *admission.EndpointLoad){
			"a measurement":      func(e *admission.EndpointLoad) { e.MeasuredAt = time.Now() },
			"a known zero":       func(e *admission.EndpointLoad) { e.Waiting = admission.Read(0) },
			"a request not mine": func(e *admission.EndpointLoad) { e.InFlight = admission.Read(4) },
			"another instance":   func(e *admission.EndpointLoad) { e.ID += "'" },
		} {
			source.set(change)
			if n := shown(20 * time.Millisecond); n == 0 {
				t.Errorf("%s was not shown at once", what)
			}
		}
		mustAdmit(t, ctl, one())
		source.set(func(e *admission.EndpointLoad) { e.InFlight = admission.Read(5) })
		if n := shown(20 * time.Millisecond); n != 0 {
			t.Errorf("a request of mine was shown %d times as news", n)
		}
	})
}
