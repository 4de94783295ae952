package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/openai"
)

// strip is a slow and plain second implementation of what a Stream cuts out of
// completions. It takes events of one data line, as engines send them.
func strip(in string, usage, continuous bool) string {
	var out strings.Builder
	for len(in) > 0 {
		if in[0] == ':' {
			end := lineLen(in)
			out.WriteString(in[:end])
			in = in[end:]
			continue
		}
		end := 0
		var data string
		lines, ended := 0, false
		for end < len(in) {
			n := lineLen(in[end:])
			line := strings.TrimRight(in[end:end+n], "\r\n")
			end += n
			if line == "" {
				ended = true
				break
			}
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = strings.TrimPrefix(value, " ")
				lines++
			}
		}
		event := in[:end]
		in = in[end:]
		if !ended && (usage || continuous) && !strings.HasPrefix(data, "[DONE]") && (!json.Valid([]byte(data)) || data[0] != '{') {
			break // cut within its data
		}
		if lines == 1 {
			event = stripEvent(event, data, usage, continuous)
		}
		out.WriteString(event)
	}
	return out.String()
}

func lineLen(s string) int {
	i := strings.IndexAny(s, "\r\n")
	switch {
	case i < 0:
		return len(s)
	case strings.HasPrefix(s[i:], "\r\n"):
		return i + 2
	}
	return i + 1
}

func stripEvent(event, data string, usage, continuous bool) string {
	var doc struct {
		Choices *[]json.RawMessage `json:"choices"`
		Usage   json.RawMessage    `json:"usage"`
		Error   json.RawMessage    `json:"error"`
	}
	if json.Unmarshal([]byte(data), &doc) != nil || doc.Choices == nil || doc.Usage == nil || doc.Error != nil {
		return event
	}
	if len(*doc.Choices) == 0 {
		if usage && doc.Usage[0] == '{' {
			return ""
		}
		return event
	}
	if !continuous {
		return event
	}
	dec := json.NewDecoder(strings.NewReader(data))
	_, _ = dec.Token()
	from := dec.InputOffset()
	first := true
	for dec.More() {
		key, _ := dec.Token()
		var value json.RawMessage
		_ = dec.Decode(&value)
		to := dec.InputOffset()
		if key == "usage" {
			if next := strings.TrimLeft(data[to:], " "); first && strings.HasPrefix(next, ",") {
				to = int64(len(data)-len(next)) + 1
			} else if !first {
				from += int64(strings.IndexByte(data[from:], ','))
			}
			return strings.Replace(event, data, data[:from]+data[to:], 1)
		}
		from, first = to, false
	}
	return event
}

// answer draws a stream of completions, well-formed or nearly.
func answer(t *rapid.T) string {
	nl := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end")
	field := rapid.SampledFrom([]string{"data: ", "data:"}).Draw(t, "field")
	var b strings.Builder
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		usage := rapid.SampledFrom([]string{``, `,"usage":null`, `,"usage":{"prompt_tokens":3,"completion_tokens":"4"}`, ` , "usage" : {"a":{"b":"}\""}}`}).Draw(t, "usage")
		choices := rapid.SampledFrom([]string{`[]`, `[ ]`, `[{"delta":{"content":"h\u00e9 \"usage\":{} 😀"}}]`, `[{"delta":{"role":"assistant","content":""}}]`}).Draw(t, "choices")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			b.WriteString(": keep-alive" + nl)
			if rapid.Bool().Draw(t, "blank") {
				b.WriteString(nl)
			}
		case 1:
			b.WriteString(field + "[DONE]" + nl + nl)
		case 2:
			b.WriteString("event: message" + nl + field + `{"choices":` + choices + usage + `}` + nl + "id: 1" + nl + nl)
		case 3:
			b.WriteString(field + `{` + strings.TrimLeft(usage, " ,") + `,"choices":` + choices + `}` + nl + nl)
		case 4:
			b.WriteString(field + `{"id":"x"` + usage + `,"choices":` + choices + `,"z":1}` + nl + nl)
		case 5:
			b.WriteString(nl)
		default:
			b.WriteString(field + `{"id":"x","choices":` + choices + usage + `}` + nl + nl)
		}
	}
	s := b.String()
	if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
		s = s[:rapid.IntRange(0, len(s)).Draw(t, "length")]
	}
	return s
}

func TestStreamAgainstPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := answer(t)
		o := openai.StreamOptions{StripUsage: rapid.Bool().Draw(t, "strip usage"), StripContinuous: rapid.Bool().Draw(t, "strip continuous")}
		want := strip(in, o.StripUsage, o.StripContinuous)
		var pieces []string
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 64)).Draw(t, "piece")
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		got, split := run(o, pieces...)
		if got != want {
			t.Fatalf("in %q\ngot  %q\nwant %q", in, got, want)
		}
		got, whole := run(o, in)
		if got != want || whole != split {
			t.Fatalf("in one piece: in %q\ngot  %q %+v\nwant %q %+v", in, got, whole, want, split)
		}
	})
}

// TestStreamEndAgainstPlain compares what a Stream says of the end and of errors
// with what decoding each chunk says.
func TestStreamEndAgainstPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in strings.Builder
		seen, ended, failed := map[int]bool{}, map[int]bool{}, false
		for range rapid.IntRange(0, 12).Draw(t, "chunks") {
			index := rapid.SampledFrom([]int{0, 0, 0, 1, 10}).Draw(t, "index")
			text := rapid.SampledFrom([]string{"a", "", `\n`, `\"`, `\"},\"finish_reason\":\"stop\"}]}`, `\"error\":1`, "x_x"}).Draw(t, "text")
			reason := rapid.SampledFrom([]string{"null", "null", "null", `""`, `"null"`, `"stop"`}).Draw(t, "reason")
			fail := rapid.SampledFrom([]string{"", "", "", `,"error":null`, `,"error":{"code":1}`}).Draw(t, "error")
			if strings.HasSuffix(fail, "}") && reason == "null" {
				reason = `"error"` // a choice that goes on is none that failed
			}
			if rapid.Bool().Draw(t, "index first") {
				fmt.Fprintf(&in, `data: {"id":"c","choices":[{"index":%d,"delta":{"content":"%s"},"finish_reason":%s}]%s}`, index, text, reason, fail)
			} else {
				fmt.Fprintf(&in, `data: {"choices":[{"finish_reason":%s,"index":%d,"delta":{"content":"%s"}}],"id":"c"%s}`, reason, index, text, fail)
			}
			in.WriteString("\n\n")
			if strings.HasSuffix(fail, "}") {
				failed = true // such a chunk is an error and nothing else
				continue
			}
			seen[index] = true
			if reason == `"stop"` {
				ended[index] = true
			}
		}
		_, got := run(openai.StreamOptions{StripUsage: true}, in.String())
		if want := len(seen) > 0 && len(ended) == len(seen); got.Finished != want || got.Failed != failed {
			t.Fatalf("%s\nended %v, failed %v; want %v, %v", in.String(), got.Finished, got.Failed, want, failed)
		}
	})
}

// FuzzStream feeds anything, whole and in pieces, and compares.
func FuzzStream(f *testing.F) {
	f.Add([]byte(events(roleChunk, textChunk, usageChunk, done)), uint8(1), uint8(3), uint8(7))
	f.Add([]byte(strings.ReplaceAll(events(textChunk, usageChunk, done), "\n", "\r\n")), uint8(1), uint8(7), uint8(1))
	f.Add([]byte(": ping\n\nevent: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":1}}}\n\n"), uint8(2), uint8(0), uint8(5))
	f.Add([]byte("event: message_delta\rdata: {\"usage\":{\"output_tokens\":\"5\"}}\r\r"), uint8(3), uint8(0), uint8(2))
	f.Add([]byte(events(`data: {"id":"x","error":{"code":500}}`, done)), uint8(1), uint8(5), uint8(4))
	f.Add([]byte("event: response.failed\ndata: {\"response\":{\"error\":{\"code\":\"x\"}}}\n\ndata: [DONE]"), uint8(2), uint8(4), uint8(9))
	f.Add([]byte(events(textChunk, strings.ReplaceAll(textChunk, "Hé", "o\\n"), strings.ReplaceAll(textChunk, "null}", `"stop"}`))+"data: [DONE]\n"), uint8(1), uint8(1), uint8(90))
	f.Fuzz(func(t *testing.T, in []byte, dialect, flags, step uint8) {
		o := openai.StreamOptions{Dialect: openai.Dialect(dialect % 5), StripUsage: flags&1 != 0, StripContinuous: flags&2 != 0, WithholdError: flags&4 != 0}
		want, whole := run(o, string(in))
		var pieces []string
		for n := int(step); len(in) > 0; n = (n*5 + 1) % 97 {
			k := min(len(in), n+1)
			pieces = append(pieces, string(in[:k]))
			in = in[k:]
		}
		joined := strings.Join(pieces, "")
		got, split := run(o, pieces...)
		if got != want || split != whole {
			t.Fatalf("%+v %q\nwhole %q %+v\nsplit %q %+v", o, joined, want, whole, got, split)
		}
		strips := o.Dialect <= openai.DialectChat && (o.StripUsage || o.StripContinuous)
		if whole.Withheld && (got != "" || !whole.Failed) {
			t.Fatalf("%q was withheld and became %q", joined, got)
		}
		if !strips && !o.WithholdError && got != joined {
			t.Fatalf("%q became %q", joined, got)
		}
		if !subsequence(got, joined) {
			t.Fatalf("%q became %q, which is no part of it", joined, got)
		}
		var b openai.Body
		b.Reset(o.Dialect)
		for _, p := range pieces {
			b.Feed([]byte(p))
		}
		b.Usage()
	})
}

func subsequence(part, all string) bool {
	for len(part) > 0 {
		i := strings.IndexByte(all, part[0])
		if i < 0 {
			return false
		}
		part, all = part[1:], all[i+1:]
	}
	return true
}

func TestStreamAllocs(t *testing.T) {
	var s openai.Stream
	in := []byte(events(roleChunk, textChunk, textChunk, usageChunk, done))
	round := func(o openai.StreamOptions, piece int) func() {
		return func() {
			s.Reset(o)
			for rest := in; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				s.Feed(rest[:min(piece, len(rest))])
			}
			s.Flush()
			s.Usage()
		}
	}
	for _, piece := range []int{len(in), 100} {
		if n := testing.AllocsPerRun(50, round(openai.StreamOptions{StripUsage: true, StripContinuous: true}, piece)); n != 0 {
			t.Errorf("pieces of %d: %v allocations, want 0", piece, n)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	chunk := `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"bench-model","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]`
	plain := []byte(chunk + "}\n\n")
	null := []byte(chunk + `,"usage":null}` + "\n\n")
	cumulative := []byte(chunk + `,"usage":{"prompt_tokens":100,"total_tokens":110,"completion_tokens":10}}` + "\n\n")
	delta := []byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\"item_id\":\"msg_0123456789abcdef\",\"output_index\":0,\"content_index\":0,\"delta\":\" token\",\"logprobs\":[]}\n\n")
	block := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" token\"}}\n\n")
	strip := openai.StreamOptions{StripUsage: true}
	for _, bm := range []struct {
		name   string
		o      openai.StreamOptions
		event  []byte
		events int // a read
		split  bool
	}{
		{"pass/events=1", openai.StreamOptions{}, plain, 1, false},
		{"strip/events=1", strip, plain, 1, false},
		{"strip/events=32", strip, plain, 32, false},
		{"strip-null/events=1", strip, null, 1, false},
		{"strip-split/events=1", strip, plain, 1, true},
		{"continuous/events=1", openai.StreamOptions{StripUsage: true, StripContinuous: true}, cumulative, 1, false},
		{"continuous-kept/events=1", strip, cumulative, 1, false},
		{"responses/events=1", openai.StreamOptions{Dialect: openai.DialectResponses}, delta, 1, false},
		{"messages/events=1", openai.StreamOptions{Dialect: openai.DialectMessages}, block, 1, false},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var s openai.Stream
			s.Reset(bm.o)
			s.Feed(bm.event)
			if !s.SawContent() {
				b.Fatal("no content")
			}
			read := bytes.Repeat(bm.event, bm.events)
			b.ReportAllocs()
			b.SetBytes(int64(len(read)))
			for b.Loop() {
				if bm.split {
					s.Feed(read[:100])
					s.Feed(read[100:])
					continue
				}
				if len(s.Feed(read)) == 0 {
					b.Fatal("nothing came out")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bm.events), "ns/event")
		})
	}
}
