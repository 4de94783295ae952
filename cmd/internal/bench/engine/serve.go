package engine

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

const jsonType = "application/json"

// serve answers the requests of one connection, one after another, until the
// other side ends it.
func (e *Engine) serve(c net.Conn) {
	r := wire.NewReader(c)
	var body []byte
	for {
		if e.opts.Idle > 0 && c.SetReadDeadline(time.Now().Add(e.opts.Idle)) != nil {
			return
		}
		head, err := r.Head(false)
		if err != nil {
			if errors.Is(err, wire.ErrMalformed) {
				e.refused.Add(1)
				c.Write(wire.Reply(400, "text/plain", []byte("malformed\n")))
			}
			return
		}
		if e.opts.Idle > 0 && c.SetReadDeadline(time.Time{}) != nil {
			return
		}
		closing := head.Close
		method, target, _ := strings.Cut(string(head.Start), " ")
		path, _, _ := strings.Cut(target, " ")
		if body, err = r.AppendBody(body[:0]); err != nil {
			return
		}
		path, _, _ = strings.Cut(path, "?")
		if method == "POST" && path == "/v1/chat/completions" {
			err = e.chat(c, body)
		} else {
			_, err = c.Write(e.page(path))
		}
		if err != nil || closing {
			return
		}
	}
}

// page answers what a gateway asks an engine beside completions.
func (e *Engine) page(path string) []byte {
	switch path {
	case "/health", "/ping":
		return wire.Reply(200, "text/plain", nil)
	case "/version":
		return wire.Reply(200, jsonType, []byte(`{"version":"0.11.0"}`))
	case "/v1/models":
		return wire.Reply(200, jsonType, []byte(`{"object":"list","data":[{"id":"`+wire.Model+
			`","object":"model","created":1750000000,"owned_by":"vllm","root":"`+wire.Model+`","parent":null,"max_model_len":131072}]}`))
	case "/metrics":
		return wire.Reply(200, "text/plain; version=0.0.4; charset=utf-8", e.metricsPage())
	}
	return wire.Reply(404, jsonType, []byte(`{"error":{"message":"no such page","type":"NotFoundError","param":null,"code":404}}`))
}

// chat answers one completion. An error ends the connection.
func (e *Engine) chat(c net.Conn, body []byte) error {
	ask, err := wire.ReadRequest(body)
	if err != nil {
		if errors.Is(err, wire.ErrPromptAltered) {
			e.altered.Add(1)
		} else {
			e.refused.Add(1)
		}
		_, werr := c.Write(wire.Reply(400, jsonType, []byte(`{"error":{"message":"`+strings.ReplaceAll(err.Error(), `"`, `'`)+
			`","type":"BadRequestError","param":null,"code":400}}`)))
		return werr
	}
	e.running.Add(1)
	defer e.running.Add(-1)
	e.promptTokens.Add(int64(len(body) / 4))
	writes := damage(e.answers.writes(ask), ask.Fault)
	due := time.Now().Add(ask.FirstDelay)
	if ask.FirstDelay > 0 {
		time.Sleep(ask.FirstDelay)
	}
	for i, w := range writes {
		// Against the clock from the start, so that lateness does not add up.
		if i > 0 && ask.Gap > 0 {
			due = due.Add(ask.Gap)
			if d := time.Until(due); d > 0 {
				time.Sleep(d)
			}
		}
		if _, err := c.Write(w); err != nil {
			e.aborted.Add(1)
			return err
		}
	}
	e.outputTokens.Add(int64(len(writes)))
	if ask.Fault == wire.FaultCut {
		e.aborted.Add(1)
		return io.ErrUnexpectedEOF
	}
	e.answered.Add(1)
	return nil
}

// damage returns writes with the fault in it; the writes given stay as they are.
func damage(writes [][]byte, f wire.Fault) [][]byte {
	mid := len(writes) / 2
	out := append([][]byte(nil), writes...)
	switch f {
	case wire.FaultAlter:
		b := bytes.Clone(out[mid])
		// A byte of the JSON text near the end; the framing stays whole.
		i := bytes.LastIndex(b, []byte("finish_reason"))
		b[i] = 'F'
		out[mid] = b
	case wire.FaultLose:
		out = append(out[:mid], out[mid+1:]...)
	case wire.FaultCut:
		out = out[:mid+1]
		out[mid] = out[mid][:len(out[mid])/2]
	case wire.FaultMute:
		last := len(out) - 1
		head, _, _ := bytes.Cut(out[last], []byte("e\r\ndata: [DONE]"))
		out[last] = append(bytes.Clone(head), "0\r\n\r\n"...)
	case wire.NoFault:
		return writes
	}
	return out
}
