package engines

import (
	"fmt"
	"strings"
	"time"
)

// Sleep says how an engine gives the memory of its cards back, keeps the weights
// in the memory of its node, and takes both again. Its own server is asked over
// HTTP, at the address at which a [Probe] asks. While it sleeps it runs on, and
// its readiness is not asked for.
//
// Sources: vLLM's sleep mode, level 1
// (https://docs.vllm.ai/en/latest/features/sleep_mode.html).
type Sleep struct {
	// Port is on the loopback or on the address that the shard binds.
	Port int
	// Keyed: the requests carry the shard's secret, whether their routes ask for it
	// or not.
	Keyed bool
	// Sleep and Wake are the paths, with their queries, that are posted to, without a
	// body. Status 200 says that it is done or begun. What is asked of an engine that
	// is so already changes nothing: a request may come twice.
	Sleep, Wake string
	// Check is the path that says how it is: with status 200 its body holds Asleep
	// while the engine sleeps, and Awake while it does not. One that falls asleep or
	// wakes may say either.
	Check         string
	Asleep, Awake string
	// SleepTimeout and WakeTimeout bound the time from the request until Check says
	// so. More than 0, at most [LongestWait].
	SleepTimeout, WakeTimeout time.Duration
}

// sleeping reports what is wrong with how an engine sleeps.
func (fs *Faults) sleeping(l Launch) {
	s := l.Sleep
	if s == nil {
		return
	}
	if !l.ServesHTTP {
		fs.Add("sleep", "is set, and the rank serves no requests", "leave it out: the rank that serves is asked")
	}
	if s.Port < 1 || s.Port > 65535 {
		fs.Add("sleep.port", fmt.Sprintf("is %d", s.Port), "want 1 to 65535")
	}
	for _, p := range []struct{ field, path string }{{"sleep.sleep", s.Sleep}, {"sleep.wake", s.Wake}, {"sleep.check", s.Check}} {
		if !isPath(p.path) {
			fs.Add(p.field, quoted(p.path)+" is no path", "begin with /, without spaces")
		}
	}
	if s.Asleep == "" || s.Awake == "" || strings.Contains(s.Asleep, s.Awake) || strings.Contains(s.Awake, s.Asleep) {
		fs.Add("sleep.asleep", fmt.Sprintf("%s and awake %s cannot be told apart", quoted(s.Asleep), quoted(s.Awake)), "give what one answer holds and the other does not")
	}
	fs.wait("sleep.sleep_timeout", s.SleepTimeout, 1)
	fs.wait("sleep.wake_timeout", s.WakeTimeout, 1)
}

// sleeps reports a profile that is to sleep and cannot.
func (fs *Faults) sleeps(d Description, p Profile) {
	switch {
	case !p.Sleep:
	case !d.Capabilities.Sleeps:
		fs.Add("sleep", "is true, and "+d.Title+" cannot give its cards' memory back while it runs", "leave it out: without it an idle engine is stopped, and started again when it is asked for")
	case p.CPU:
		fs.Add("sleep", "is true beside cpu", "leave it out: there are no cards to give back")
	case p.Ranks > 1:
		fs.Add("sleep", fmt.Sprintf("is true over %d ranks, and it is for engines on one node", p.Ranks), "leave it out, or set ranks to 1")
	}
}
