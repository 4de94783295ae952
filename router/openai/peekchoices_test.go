package openai_test

import (
	"testing"

	"github.com/llmgw/llmgw/router/openai"
)

// How many answers a request asks for is what its cost is a multiple of.
func TestPeekChoices(t *testing.T) {
	for _, tt := range []struct {
		body             string
		choices, prompts int64
	}{
		{`{"model":"m"}`, 1, 1},
		{`{"model":"m","n":3}`, 3, 1},
		{`{"model":"m","n":"3"}`, 3, 1},
		{`{"model":"m","n":" \u0033"}`, 3, 1},
		{`{"model":"m","n":"many"}`, 1, 1},
		{`{"model":"m","n":2,"n_cmpl":4}`, 4, 1},
		{`{"model":"m","n":2,"best_of":5}`, 5, 1},
		{`{"model":"m","n":0}`, 1, 1},
		{`{"model":"m","n":-4}`, 1, 1},
		{`{"model":"m","n":null}`, 1, 1},
		{`{"model":"m","n":1e300}`, 1, 1},
		{`{"model":"m","n":9007199254740992}`, 1 << 20, 1},
		{`{"model":"m","n":4,"n":1}`, 4, 1},
		{`{"model":"m","prompt":"a"}`, 1, 1},
		{`{"model":"m","prompt":[]}`, 1, 1},
		{`{"model":"m","prompt":["a"]}`, 1, 1},
		{`{"model":"m","prompt":[ "a, \"b" , "c" ]}`, 1, 2},
		{`{"model":"m","prompt":[1,2,3]}`, 1, 1},
		{`{"model":"m","prompt":[[1,2],[3],[]],"n":2}`, 2, 3},
		{`{"model":"m","messages":["a","b"],"input":["a","b"]}`, 1, 1},
	} {
		var p openai.Peek
		if err := openai.PeekBody([]byte(tt.body), &p); err != nil {
			t.Fatalf("%s: %v", tt.body, err)
		}
		if p.Choices != tt.choices || p.Prompts != tt.prompts {
			t.Errorf("%s: %d choices of %d prompts; want %d of %d", tt.body, p.Choices, p.Prompts, tt.choices, tt.prompts)
		}
	}
}
