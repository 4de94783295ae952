package sim_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
)

// upload sends a form of names and values in turn; "file" is one.
func upload(t *testing.T, e *sim.Engine, parts ...string) *httptest.ResponseRecorder {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--bnd\r\nContent-Disposition: form-data; name=\"" + parts[i] + `"`)
		if parts[i] == "file" {
			b.WriteString(`; filename="a.wav"`)
		}
		b.WriteString("\r\n\r\n" + parts[i+1] + "\r\n")
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/audio/transcriptions", strings.NewReader(b.String()+"--bnd--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=bnd")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

func TestTranscribe(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.Model = "whisper"
	e := newEngine(t, cfg)
	sound := strings.Repeat("pcm ", 16_000) // two seconds
	type doc struct {
		Text  string
		Usage struct {
			Type    string
			Seconds int
		}
	}
	got := into[doc](t, upload(t, e, "file", sound, "model", "whisper").Body.String())
	if n, whole := sim.CheckText(got.Text); n != 7 || !whole || got.Usage.Type != "duration" || got.Usage.Seconds != 2 {
		t.Errorf("got %+v, %d words", got, n)
	}
	if again := into[doc](t, upload(t, e, "model", "whisper", "file", sound).Body.String()); again.Text != got.Text {
		t.Error("the same sound is heard differently")
	}
	if w := upload(t, e, "file", sound, "response_format", "text"); w.Body.String() != got.Text || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("as text: %s %s", w.Header().Get("Content-Type"), w.Body)
	}

	var text strings.Builder
	stream := upload(t, e, "stream", "true", "stream_include_usage", "true", "file", sound).Body.String()
	all := strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n")
	for _, event := range all[:len(all)-2] {
		c := into[struct {
			Object  string
			Choices []struct{ Delta struct{ Content string } }
		}](t, strings.TrimPrefix(event, "data: "))
		if c.Object != "transcription.chunk" || len(c.Choices) != 1 {
			t.Fatalf("chunk %s", event)
		}
		text.WriteString(c.Choices[0].Delta.Content)
	}
	if text.String() != got.Text || !strings.Contains(all[len(all)-2], `"completion_tokens":7`) || all[len(all)-1] != "data: [DONE]" {
		t.Errorf("streamed: %s", stream)
	}

	for status, parts := range map[int][]string{
		400: {"model", "whisper"}, 404: {"file", sound, "model", "another"},
	} {
		if w := upload(t, e, parts...); w.Code != status {
			t.Errorf("%v: got %d %s", parts[0], w.Code, w.Body)
		}
	}
	if w := call(t, e, "POST", "/v1/audio/transcriptions", `{}`); w.Code != 400 {
		t.Errorf("JSON: got %d %s", w.Code, w.Body)
	}
}

func TestStoredResponses(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	type response struct {
		ID    string
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	one := into[response](t, call(t, e, "POST", "/v1/responses", `{"input":"hello","max_output_tokens":7}`).Body.String())
	two := into[response](t, call(t, e, "POST", "/v1/responses", `{"input":"hello","max_output_tokens":7,"previous_response_id":"`+one.ID+`"}`).Body.String())
	if two.Usage.Input < 2*one.Usage.Input+7 {
		t.Errorf("it goes on from %d tokens with %d", one.Usage.Input, two.Usage.Input)
	}
	if got := into[response](t, call(t, e, "GET", "/v1/responses/"+two.ID, "").Body.String()); got != two {
		t.Errorf("stored %+v; want %+v", got, two)
	}
	stream := call(t, e, "POST", "/v1/responses", `{"input":"hello","max_output_tokens":7,"stream":true}`).Body.String()
	created, _, _ := strings.Cut(strings.TrimPrefix(stream, "event: response.created\ndata: "), "\n")
	id := into[struct{ Response response }](t, created).Response.ID
	off := into[response](t, call(t, e, "POST", "/v1/responses", `{"input":"hello","max_output_tokens":7,"store":false}`).Body.String())
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/responses/" + id, "", 200},
		{"POST", "/v1/responses/" + id + "/cancel", "", 400},
		{"POST", "/v1/responses/none/cancel", "", 404},
		{"GET", "/v1/responses/" + off.ID, "", 404},
		{"DELETE", "/v1/responses/" + id, "", 405},
		{"POST", "/v1/responses", `{"input":"x","previous_response_id":"none"}`, 404},
	} {
		if w := call(t, e, tt.method, tt.path, tt.body); w.Code != tt.status {
			t.Errorf("%s %s: got %d %s", tt.method, tt.path, w.Code, w.Body)
		}
	}
	for range 1100 {
		call(t, e, "POST", "/v1/responses", `{"input":"hello","max_output_tokens":1}`)
	}
	if w := call(t, e, "GET", "/v1/responses/"+one.ID, ""); w.Code != 404 {
		t.Errorf("the store has no bound: got %d", w.Code)
	}
}
