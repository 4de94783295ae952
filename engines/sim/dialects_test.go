package sim_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim"
)

// eventNames lists a stream's event names, runs of one name folded, and checks
// that each data has the same type.
func eventNames(t *testing.T, stream string) []string {
	t.Helper()
	var names []string
	for event := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		first, data, ok := strings.Cut(event, "\n")
		name, ok1 := strings.CutPrefix(first, "event: ")
		data, ok2 := strings.CutPrefix(data, "data: ")
		if !ok || !ok1 || !ok2 {
			t.Fatalf("event %q", event)
		}
		if v := into[struct{ Type string }](t, data); v.Type != name {
			t.Errorf("event %s has type %s", name, v.Type)
		}
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}

func TestResponses(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	type response struct {
		Status     string
		Incomplete *struct{ Reason string } `json:"incomplete_details"`
		Output     []struct {
			Type, Arguments string
			Content         []struct{ Text string }
		}
		Usage *struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	full := into[response](t, call(t, e, "POST", "/v1/responses", `{"input":"hello","max_output_tokens":7}`).Body.String())
	if n, whole := sim.CheckText(full.Output[0].Content[0].Text); n != 7 || !whole || full.Status != "incomplete" ||
		full.Incomplete.Reason != "max_output_tokens" || full.Usage.Output != 7 || full.Usage.Total != full.Usage.Input+7 {
		t.Errorf("%+v", full)
	}
	w := call(t, e, "POST", "/v1/responses", `{"instructions":"be kind","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true}`)
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.done", "response.content_part.done",
		"response.output_item.done", "response.completed",
	}
	if d := cmp.Diff(want, eventNames(t, w.Body.String())); d != "" {
		t.Error(d)
	}
	var text strings.Builder
	var last struct{ Response response }
	for i, l := range dataLines(t, w.Body.String()) {
		v := into[struct {
			Type, Delta string
			Sequence    int `json:"sequence_number"`
		}](t, l)
		if v.Sequence != i {
			t.Errorf("event %d has number %d", i, v.Sequence)
		}
		if v.Type == "response.output_text.delta" {
			text.WriteString(v.Delta)
		}
		last = into[struct{ Response response }](t, l)
	}
	if n, whole := sim.CheckText(text.String()); !whole || n != last.Response.Usage.Output || last.Response.Status != "completed" {
		t.Errorf("%d tokens, whole %v, last %+v", n, whole, last)
	}
	w = call(t, e, "POST", "/v1/responses", `{"input":"hi","tools":[{"type":"function","name":"f"}],"tool_choice":"required","stream":true}`)
	if names := strings.Join(eventNames(t, w.Body.String()), " "); !strings.Contains(names,
		"response.output_item.added response.function_call_arguments.delta response.function_call_arguments.done response.output_item.done") {
		t.Error(names)
	}
}

func TestMessages(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	const body = `{"model":"sim-8b","max_tokens":6,"system":[{"type":"text","text":"be kind"}],"messages":[{"role":"user","content":"hi"}]`
	type message struct {
		Type       string
		StopReason string `json:"stop_reason"`
		Content    []struct {
			Type, Text, Name string
			Input            map[string]string
		}
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	full := into[message](t, call(t, e, "POST", "/v1/messages", body+`}`).Body.String())
	if n, whole := sim.CheckText(full.Content[0].Text); n != 6 || !whole || full.StopReason != "max_tokens" || full.Usage.Output != 6 {
		t.Errorf("%+v", full)
	}
	count := into[struct {
		Input int `json:"input_tokens"`
	}](t, call(t, e, "POST", "/v1/messages/count_tokens", body+`}`).Body.String())
	if count.Input != full.Usage.Input {
		t.Errorf("count_tokens says %d, usage %d", count.Input, full.Usage.Input)
	}
	w := call(t, e, "POST", "/v1/messages", body+`,"stream":true}`)
	want := []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
	if d := cmp.Diff(want, eventNames(t, w.Body.String())); d != "" {
		t.Error(d)
	}
	var text strings.Builder
	for _, l := range dataLines(t, w.Body.String()) {
		v := into[struct {
			Delta struct{ Text string }
			Usage *struct {
				Output int `json:"output_tokens"`
			}
		}](t, l)
		text.WriteString(v.Delta.Text)
		if v.Usage != nil && v.Usage.Output != 6 {
			t.Errorf("%s", l)
		}
	}
	if text.String() != full.Content[0].Text {
		t.Errorf("streamed %q, whole %q", text.String(), full.Content[0].Text)
	}
	tool := into[message](t, call(t, e, "POST", "/v1/messages",
		`{"max_tokens":600,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"}}`).Body.String())
	if tool.StopReason != "tool_use" || tool.Content[0].Name != "f" || tool.Content[0].Input["text"] == "" {
		t.Errorf("%+v", tool)
	}
}
