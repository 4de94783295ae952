package workload_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// fuzzRead reads any file as format: there is a valid trace or an error that
// callers can tell apart, never both, and a prompt of the trace has the tokens
// that it says.
func fuzzRead(f *testing.F, format workload.Format, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add(pack([]byte(s)))
		f.Add(pack([]byte(s))[:20])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := workload.Read(bytes.NewReader(data), "f", format)
		if err != nil {
			_, row := errors.AsType[*workload.RowError](err)
			if trace != nil || !row && !errors.Is(err, workload.ErrEmpty) {
				t.Fatalf("%v, %v", trace, err)
			}
			return
		}
		if format != "" && trace.Format != format {
			t.Errorf("%s, asked for %s", trace.Format, format)
		}
		if err := trace.Validate(); err != nil {
			t.Error(err)
		}
		if s := trace.Stats(); s.Requests != len(trace.Requests) || s.SeenTokens > s.Prompt.Total || s.SeenBlocks > s.Blocks {
			t.Errorf("%+v", s)
		}
		p := workload.NewPrompter(trace)
		for i := range trace.Requests {
			r := &trace.Requests[i]
			if r.PromptTokens > 5000 || r.Text != "" {
				continue // the fuzzer would spend its time in them
			}
			if got := sim.CountTokens(string(p.Append(nil, r))); got != r.PromptTokens {
				t.Errorf("request %d: %d tokens, want %d", i, got, r.PromptTokens)
			}
		}
	})
}

func FuzzReadMooncake(f *testing.F) {
	fuzzRead(f, workload.Mooncake,
		`{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0,1,2,3,4,5,6,7,8,9,10,11,12,13]}`+"\n"+
			`{"timestamp": 1.5, "input_length": 513, "output_length": 1, "hash_ids": [0, 18446744073709551615]}`)
}

func FuzzReadQwen(f *testing.F) {
	fuzzRead(f, workload.Qwen,
		`{"chat_id":7,"parent_chat_id":-1,"timestamp":61.25,"input_length":33,"output_length":9,"hash_ids":[1,2]}`+"\n"+
			`{"chat_id":8,"parent_chat_id":7,"timestamp":62,"input_length":1,"output_length":9,"hash_ids":[]}`)
}

func FuzzReadAzure(f *testing.F) {
	fuzzRead(f, workload.Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n\"2023-11-16 18:15:47+00:00\",3,4\n")
}

func FuzzReadBurstGPT(f *testing.F) {
	fuzzRead(f, workload.BurstGPT, "Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,a,ChatGPT,472,18,490,Conversation log\n")
}

func FuzzReadAIBrix(f *testing.F) {
	fuzzRead(f, workload.AIBrix, `{"timestamp":159,"requests":[{"Prompt Length":1153,"Output Length":8,"prompt":"0reate\u00e9"},{"Prompt Length":1,"Output Length":1,"prompt":"b"}]}`)
}

// FuzzRead tells the format from the content.
func FuzzRead(f *testing.F) {
	fuzzRead(f, "",
		"\xef\xbb\xbf\n{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
		"Timestamp,Request tokens,Response tokens\n1,1,1",
		`{"requests":[]}`, `{"chat_id":1}`)
}

func FuzzParseLengths(f *testing.F) {
	for _, s := range []string{"512", "100-2000", "lognormal:120:0.8", "lognormal:120:0.8:2048", "1-", "lognormal:1:-0", "lognormal:9:1e-320:9", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := workload.ParseLengths(text)
		if err != nil {
			if e, ok := errors.AsType[*workload.LengthsError](err); !ok || e.Text != text || e.Why == "" || !l.IsZero() {
				t.Fatalf("%v, %v", l, err)
			}
			return
		}
		if again, err := workload.ParseLengths(l.String()); err != nil || again != l {
			t.Errorf("%q is %q, which reads as %q, %v", text, l, again, err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 10 {
			if n := l.Draw(rng); n < 1 || n > l.Max() || n > workload.MaxTokens {
				t.Errorf("%q draws %d", text, n)
			}
		}
	})
}

func FuzzParseArrivals(f *testing.F) {
	for _, s := range []string{"", "poisson:5", "uniform:1e-6", "poisson:0x1p3", ":1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := workload.ParseArrivals(text)
		if err != nil {
			if !errors.Is(err, workload.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if again, err := workload.ParseArrivals(a.String()); err != nil || again != a {
			t.Errorf("%q is %q, which reads as %q, %v", text, a, again, err)
		}
	})
}
