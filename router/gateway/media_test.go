package gateway_test

import (
	"io"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router"
)

const (
	heard     = `data: {"type":"transcript.text.delta","delta":"h"}` + "\n\n"
	heardAll  = `data: {"type":"transcript.text.done","text":"hi","usage":{"type":"tokens","input_tokens":14,"output_tokens":3,"total_tokens":17}}` + "\n\n"
	heardVLLM = `data: {"id":"t","object":"transcription.chunk","created":1,"model":"m","choices":[{"delta":{"content":"h"},"finish_reason":null}]}` + "\n\n"
	usedVLLM  = `data: {"id":"t","object":"transcription.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":14,"completion_tokens":3,"total_tokens":17}}` + "\n\n"
	spoke     = `data: {"type":"speech.audio.delta","audio":"//NExAA"}` + "\n\n"
	spokeAll  = `data: {"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":3,"total_tokens":17}}` + "\n\n"
)

// Streams of speech and images pass event by event and are understood as far as
// their end, usage and first content.
func TestMediaStreams(t *testing.T) {
	t.Parallel()
	image := `event: image_edit.partial_image` + "\n" + `data: {"type":"image_edit.partial_image","b64_json":"` + strings.Repeat("A", 100<<10) + `"}` + "\n\n"
	imageAll := `event: image_edit.completed` + "\n" + `data: {"type":"image_edit.completed","b64_json":"` + strings.Repeat("A", 100<<10) +
		`","usage":{"input_tokens":14,"output_tokens":3,"total_tokens":17}}` + "\n\n"
	for _, tt := range []struct {
		name, path, one, rest string
		usage                 bool
	}{
		{"transcript", transcriptions, heard, heardAll, true},
		{"transcript of vLLM", transcriptions, heardVLLM, usedVLLM + doneEvent, true},
		{"transcript without its last event", transcriptions, heard, heard, false},
		{"speech", "/v1/audio/speech", spoke, spokeAll, true},
		{"image", "/v1/images/edits", image, imageAll, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := make(chan struct{})
			e := newRaw(t, func(x *exchange) {
				x.write(eventHead() + chunk(tt.one))
				<-began // so the first event did not wait for another
				x.write(chunk(tt.rest) + lastChunk)
			})
			f := newFleet(t, config(at("a", e.url)))
			body, contentType := formOf("file", sound(1000), "stream", "true", "model", "m"), formType
			if tt.path == "/v1/audio/speech" {
				body, contentType = `{"model":"m","input":"hi","stream_format":"sse"}`, "application/json"
			}
			res, err := f.send(t.Context(), "POST", tt.path, strings.NewReader(body), "Content-Type", contentType)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			got := make([]byte, len(tt.one))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != tt.one {
				t.Fatalf("got %q, %v", got, err)
			}
			close(began)
			rest, err := io.ReadAll(res.Body)
			if err != nil || string(rest) != tt.rest {
				t.Errorf("got %q, %v", rest, err)
			}
			o := f.next()
			if n, _ := o.Usage.PromptTokens.Get(); o.Result != router.ResultOK || o.HasUsage != tt.usage || tt.usage && n != 14 || o.FirstContent.IsZero() {
				t.Errorf("recorded %v, usage %v, content at %v", o.Result, o.Usage, o.FirstContent)
			}
			f.idle()
		})
	}
}

// Sound passes as it comes, byte by byte, and is not read as text.
func TestSpeechPasses(t *testing.T) {
	one, two := sound(5000)+`"usage":{"prompt_tokens":1000000}`, sound(70_000)+"\x00"
	for name, framing := range map[string]string{
		"in chunks":       head(200, "Content-Type: audio/mpeg", "Transfer-Encoding: chunked"),
		"of known length": head(200, "Content-Type: audio/mpeg", "Content-Length: 75034"),
	} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{})
			chunked := strings.Contains(framing, "chunked")
			e := newRaw(t, func(x *exchange) {
				if !chunked {
					x.write(framing + one + two)
					return
				}
				x.write(framing + chunk(one))
				<-began
				x.write(chunk(two) + lastChunk)
			})
			f := newFleet(t, config(at("a", e.url)))
			res, err := f.send(t.Context(), "POST", "/v1/audio/speech", strings.NewReader(`{"model":"m","input":"hi","voice":"v"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			got := make([]byte, len(one))
			if _, err := io.ReadFull(res.Body, got); err != nil {
				t.Fatal(err)
			}
			close(began)
			rest, err := io.ReadAll(res.Body)
			if err != nil || string(got)+string(rest) != one+two || res.Header.Get("Content-Type") != "audio/mpeg" {
				t.Errorf("got %d bytes of %s, %v", len(got)+len(rest), res.Header.Get("Content-Type"), err)
			}
			if o := f.next(); o.Result != router.ResultOK || o.HasUsage || o.BytesOut != int64(len(one+two)) {
				t.Errorf("recorded %v, usage %v", o.Result, o.Usage)
			}
			f.idle()
		})
	}
}
