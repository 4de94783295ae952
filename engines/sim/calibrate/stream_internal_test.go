package calibrate

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzStream reads whatever an engine might send: it ends with a whole reading
// or one of three errors, however the bytes are cut.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n: ping\n\ndata:{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}",
		"data: {\"error\":{\"message\":\"x\"}}\n", "data: {\"error\":null,\"choices\":null}\n", "data", "data:", "\n\n", "event: x\ndata: {}\n",
		"data: {\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1e3}}\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var whole, bytewise reading
		err := whole.readStream(strings.NewReader(s), nil)
		again := bytewise.readStream(iotest.OneByteReader(strings.NewReader(s)), nil)
		if (err == nil) != (again == nil) || len(whole.times) != len(bytewise.times) || whole.prompt != bytewise.prompt {
			t.Errorf("whole: %v, by bytes: %v", err, again)
		}
		if err == nil && (len(whole.times) == 0 || whole.prompt < 1 || whole.completion < 1) {
			t.Errorf("no error and %+v", whole)
		}
		if err != nil && !errors.Is(err, ErrStream) && !errors.Is(err, ErrNoUsage) && !errors.Is(err, ErrNotEngine) {
			t.Errorf("error of no kind: %v", err)
		}
	})
}
