package sim

import (
	"fmt"
	"net/http"
	"time"
)

// sleepState is how an engine with Config.SleepMode sleeps. The engine's mu
// guards it.
type sleepState struct {
	level  int           // 0: awake; 1: weights in host memory; 2: discarded
	waking chan struct{} // closed when it is awake; nil: nobody wakes it
	timer  *time.Timer   // of its waking
}

// Asleep reports whether the engine sleeps, or has not woken yet.
func (e *Engine) Asleep() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sleep.level > 0
}

// fallAsleep answers POST /sleep: the cache is dropped, and nothing is computed
// until the engine is woken. Requests that run or come wait for that.
func (e *Engine) fallAsleep(w http.ResponseWriter, r *http.Request) {
	level := 1
	switch text := r.URL.Query().Get("level"); text {
	case "", "1":
	case "2":
		level = 2
	default:
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": fmt.Sprintf("level %q; want 1 or 2", text)})
		return
	}
	e.mu.Lock()
	wakes := e.sleep.waking
	e.mu.Unlock()
	if wakes != nil && !e.woken(r, wakes) {
		return
	}
	e.mu.Lock()
	slept := e.sleep.level > 0
	if !slept {
		e.sleep.level = level
	}
	e.mu.Unlock()
	if !slept {
		e.ClearPrefixCache()
		e.log.Info(fmt.Sprintf("It took %.6f seconds to fall asleep.", 0.0))
	}
	w.WriteHeader(http.StatusOK)
}

// wakeUp answers POST /wake_up once the engine is awake, which takes
// Config.WakeTime, also where the client does not wait for it.
func (e *Engine) wakeUp(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.sleep.level > 0 && e.sleep.waking == nil && !e.closed {
		e.sleep.waking = make(chan struct{})
		e.sleep.timer = time.AfterFunc(e.cfg.WakeTime, e.awake)
	}
	wakes := e.sleep.waking
	e.mu.Unlock()
	if wakes == nil || e.woken(r, wakes) {
		w.WriteHeader(http.StatusOK)
	}
}

// woken waits until the engine is awake; false: the client or the engine ended.
func (e *Engine) woken(r *http.Request, wakes <-chan struct{}) bool {
	select {
	case <-wakes:
		return true
	case <-r.Context().Done():
	case <-e.done:
	}
	return false
}

// awake ends a sleep.
func (e *Engine) awake() {
	e.mu.Lock()
	wakes := e.sleep.waking
	e.sleep = sleepState{}
	e.mu.Unlock()
	e.log.Info(fmt.Sprintf("It took %.6f seconds to wake up tags {'weights', 'kv_cache'}.", e.cfg.WakeTime.Seconds()))
	close(wakes)
	e.poke()
}

func (e *Engine) isSleeping(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"is_sleeping": e.Asleep()})
}
