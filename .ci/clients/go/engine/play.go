package engine

import (
	"net/http"
	"time"
)

// event is one of a stream. Content marks those that carry a token.
type event struct {
	name, data string
	content    bool
}

// dialect shapes the answers of one API.
type dialect interface {
	events() []event
	failed() event // what a stream says when it fails; [DONE] may follow
	full() string
}

// play sends a stream as the behaviour has it.
func (x *exchange) play(events []event, failed event, path string) {
	x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	x.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(x.w).Flush()
	tokens := 0
	for _, ev := range events {
		if ev.content && tokens == 0 && x.behaviour == "slow" && !x.wait(SlowBy) {
			return
		}
		x.send(ev)
		if !ev.content {
			continue
		}
		if tokens++; tokens == 1 && x.behaviour == "hang" {
			<-x.r.Context().Done()
			return
		}
		if tokens < 2 {
			continue
		}
		switch x.behaviour {
		case "endless":
			for x.wait(5 * time.Millisecond) {
				x.send(ev)
			}
			return
		case "cut":
			x.hangUp(false)
			return
		case "short":
			return
		case "reset":
			// A reset may overtake what was sent before it, so it waits until
			// the client has read that.
			select {
			case <-x.release:
			case <-x.r.Context().Done():
			}
			x.hangUp(true)
			return
		case "errorevent":
			x.send(failed)
			if path == "/v1/chat/completions" {
				x.send(event{data: "[DONE]"})
			}
			return
		}
	}
}

func (x *exchange) send(ev event) {
	eol, space := "\n", " "
	if x.behaviour == "framing" {
		eol, space = "\r\n", ""
	}
	text := ""
	if x.behaviour == "framing" {
		text = ": still here" + eol
	}
	if ev.name != "" {
		text += "event:" + space + ev.name + eol
	}
	text += "data:" + space + ev.data + eol + eol
	step := len(text)
	if x.behaviour == "framing" {
		step = 1
	}
	rc := http.NewResponseController(x.w)
	for ; text != ""; text = text[min(step, len(text)):] {
		if _, err := x.w.Write([]byte(text[:min(step, len(text))])); err != nil {
			return
		}
		if rc.Flush() != nil {
			return
		}
	}
}
