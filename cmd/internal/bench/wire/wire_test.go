package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

func TestRequestRoundTrip(t *testing.T) {
	p := wire.Params{FirstDelay: 3 * time.Millisecond, Gap: 5 * time.Millisecond, Events: 64, AnswerBytes: 1024, Fault: wire.FaultCut}
	body := wire.RequestBody(wire.Model, true, 1000, 7, p)
	var parsed struct {
		Model    string
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(body, &parsed); err != nil || parsed.Model != wire.Model || !parsed.Stream {
		t.Fatalf("body %s: %v, %+v", body, err, parsed)
	}
	if other := wire.RequestBody(wire.Model, true, 1000, 8, p); bytes.Equal(body, other) {
		t.Error("two prompts are the same")
	}
	edit := func(old, new string) []byte { return bytes.Replace(body, []byte(old), []byte(new), 1) }
	tests := []struct {
		name string
		body []byte
		want wire.Ask
		err  error
	}{
		{"as sent", body, wire.Ask{Params: p, Stream: true}, nil},
		{"model renamed, usage asked for", edit(`"model":"bench-model"`, `"model":"x","stream_options": {"include_usage": true}`),
			wire.Ask{Params: p, Stream: true, Usage: true}, nil},
		{"continuous usage", edit(`{"messages"`, `{"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages"`),
			wire.Ask{Params: p, Stream: true, Usage: true, Continuous: true}, nil},
		{"prompt altered", edit("router", "rooter"), wire.Ask{}, wire.ErrPromptAltered},
		{"prompt shortened", edit("router ", ""), wire.Ask{}, wire.ErrPromptAltered},
		{"cut", body[len(body)-300:], wire.Ask{}, wire.ErrPromptAltered},
		{"no parameters", []byte(`{"messages":[]}`), wire.Ask{}, wire.ErrNotBench},
		{"broken parameters", edit("gap=", "gap=x"), wire.Ask{}, wire.ErrNotBench},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.ReadRequest(tt.body)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPromptsAreJSON(t *testing.T) {
	for size := range 700 {
		if body := wire.RequestBody(wire.Model, false, size, 1, wire.Params{}); !json.Valid(body) {
			t.Fatalf("size %d: %s", size, body)
		}
	}
}

func TestAnswersAreJSON(t *testing.T) {
	for _, usage := range []wire.Usage{wire.NoUsage, wire.FinalUsage, wire.ContinuousUsage} {
		a := wire.StreamAnswer(20, usage)
		from := 0
		for i, to := range a.Ends {
			data, ok := bytes.CutPrefix(a.Body[from:to], []byte("data: "))
			last := i == len(a.Ends)-1
			if !ok || last != (string(data) == "[DONE]\n\n") || !last && !json.Valid(data) {
				t.Fatalf("event %d: %q", i, a.Body[from:to])
			}
			from = to
		}
		if from != len(a.Body) {
			t.Errorf("events end at %d of %d bytes", from, len(a.Body))
		}
	}
	for _, size := range []int{0, 1024, 5000} {
		a := wire.WholeAnswer(size)
		if !json.Valid(a.Body) || len(a.Body) < size || len(a.Body) > max(size+32, 300) {
			t.Errorf("answer of %d bytes has %d: %s", size, len(a.Body), a.Body)
		}
	}
}

func TestFramesCarryTheAnswer(t *testing.T) {
	for _, events := range []int{1, 2, 3, 64} {
		for _, usage := range []wire.Usage{wire.NoUsage, wire.FinalUsage, wire.ContinuousUsage} {
			a := wire.StreamAnswer(events, usage)
			frames := wire.Frames(a)
			if len(frames) != events {
				t.Errorf("%d writes for %d tokens", len(frames), events)
			}
			r := wire.NewReader(bytes.NewReader(bytes.Join(frames, nil)))
			head, err := r.Head(true)
			if err != nil || !head.Chunks || head.Close {
				t.Fatalf("head %+v, %v", head, err)
			}
			body, err := r.AppendBody(nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(a.Body), string(body)); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	tests := []struct {
		name   string
		in     string
		want   []string // bodies
		closes bool
		err    error
	}{
		{"two of known length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length:20000\r\n\r\n" + long, []string{"hello", long}, false, io.EOF},
		{"chunks and trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			[]string{"abc0123456789", ""}, false, io.EOF},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nall", []string{"all"}, true, io.EOF},
		{"old", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n1", []string{"1"}, false, io.EOF},
		{"closing", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1", []string{"1"}, true, io.EOF},
		{"cut in the head", "HTTP/1.1 200 OK\r\nConte", nil, false, io.ErrUnexpectedEOF},
		{"cut in the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", nil, false, io.ErrUnexpectedEOF},
		{"cut in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", nil, false, io.ErrUnexpectedEOF},
		{"cut between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", nil, false, io.ErrUnexpectedEOF},
		{"chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n", nil, false, wire.ErrMalformed},
		{"bad size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n", nil, false, wire.ErrMalformed},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", nil, false, wire.ErrMalformed},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000), nil, false, wire.ErrMalformed},
	}
	for _, tt := range tests {
		for name, src := range map[string]io.Reader{"at once": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				r := wire.NewReader(src)
				var got []string
				var closes bool
				err := func() error {
					for {
						head, err := r.Head(true)
						if err != nil {
							return err
						}
						closes = closes || head.Close
						body, err := r.AppendBody(nil)
						if err != nil {
							return err
						}
						got = append(got, string(body))
					}
				}()
				if !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || closes != tt.closes {
					t.Errorf("closes %v, want %v; bodies: %s", closes, tt.closes, diff)
				}
			})
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func(src io.Reader) (out []string, err error) {
			r := wire.NewReader(src)
			for {
				if _, err = r.Head(true); err != nil {
					return out, err
				}
				var body []byte
				for {
					piece, err := r.Piece()
					if err == io.EOF {
						break
					}
					if err != nil {
						return out, err
					}
					body = append(body, piece...)
				}
				out = append(out, string(body))
			}
		}
		whole, err1 := read(bytes.NewReader(in))
		bytewise, err2 := read(iotest.OneByteReader(bytes.NewReader(in)))
		if diff := cmp.Diff(whole, bytewise); diff != "" || (err1 == nil) != (err2 == nil) {
			t.Errorf("the split matters: %v, %v: %s", err1, err2, diff)
		}
	})
}
