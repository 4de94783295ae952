package router

import (
	"bytes"
	"errors"

	"github.com/llmgw/llmgw/router/openai"
)

// tap is the relay's view of an answer's format: a stream of events, or one
// document; or bytes that mean nothing, such as sound.
type tap struct {
	call   *call
	events bool
	json   bool  // a document whose usage can be read
	stores *call // to be told of the response's ID; nil: none, or told
	stream openai.Stream
	doc    openai.Body
	reads  int
	last   byte // of a document, white space left out
}

// reset prepares for an answer. opaque says that its content coding is not ours
// to read, whatever its type.
func (t *tap) reset(c *call, contentType string, opaque bool, o openai.StreamOptions) {
	t.call, t.reads, t.last = c, 0, 0
	t.events = isEventStream(contentType) && !opaque
	// Sound, images and plain text have no usage, whatever they look like.
	t.json = (contentType == "" || mediaType(contentType, "application/json")) && !opaque
	t.stores = nil
	if c.store {
		t.stores = c
	}
	if t.events {
		t.stream.Reset(o)
	} else {
		t.doc.Reset(o.Dialect)
	}
}

// learn passes the response's ID on once it is known: before the client sees it,
// who may come back with it at once.
func (t *tap) learn() {
	id := ""
	if t.events {
		id = t.stream.ResponseID()
	} else if t.json {
		id = t.doc.ResponseID()
	}
	if id != "" {
		t.stores.stores(id)
		t.stores = nil
	}
}

// Feed implements [proxy.Tap].
func (t *tap) Feed(p []byte) []byte {
	if t.events {
		p = t.stream.Feed(p)
	} else {
		t.reads++
		if t.json {
			t.doc.Feed(p)
		}
		if b := bytes.TrimRight(p, " \t\r\n"); len(b) > 0 {
			t.last = b[len(b)-1]
		}
	}
	if t.stores != nil {
		t.learn()
	}
	if len(p) > 0 && t.call != nil {
		// Bytes go to the client, so the request will not be sent again.
		t.call.answering()
		t.call = nil
	}
	return p
}

// Flush implements [proxy.Tap].
func (t *tap) Flush() []byte {
	if !t.events {
		return nil
	}
	rest := t.stream.Flush()
	if t.call != nil && !t.call.route.open && !t.stream.Ended() {
		return nil // it would be the first byte of an answer that has no end
	}
	return rest
}

// Progress implements [proxy.Tap].
func (t *tap) Progress() int {
	if t.events {
		return int(t.stream.Events())
	}
	return t.reads
}

// Content implements [proxy.Tap]. All of a document is content.
func (t *tap) Content() bool {
	if t.events {
		return t.stream.SawContent()
	}
	return t.reads > 0
}

// Whole implements [proxy.Tap].
func (t *tap) Whole() bool {
	if t.events {
		return t.stream.Ended()
	}
	return t.last == '}' || t.last == ']'
}

// Err implements [proxy.Tap].
func (t *tap) Err() error {
	if t.events && t.stream.Withheld() {
		return errErrorEvent
	}
	return nil
}

// errErrorEvent: a stream began with an error event, of which the client has
// seen nothing.
var errErrorEvent = errors.New("router: the engine answered with an error event")

func (t *tap) usage() (openai.Usage, bool) {
	if t.events {
		return t.stream.Usage()
	}
	return t.doc.Usage()
}
