package openai_test

import (
	"bytes"
	"fmt"

	"github.com/llmgw/llmgw/router/openai"
)

// Two bodies that an engine sees as the same prompt. What takes the bytes is
// usually a hash, such as a prefix.Chain.
func ExampleWritePrompt() {
	var a, b bytes.Buffer
	_ = openai.WritePrompt(&a, []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f"}]}`))
	_ = openai.WritePrompt(&b, []byte(`{"tools":[{"name": "f"}], "messages":[{"content":[{"type":"text","text":"\u0048i"}],"role":"user"}],"seed":1}`))
	fmt.Println(bytes.Equal(a.Bytes(), b.Bytes()))
	fmt.Printf("%q\n", a.Bytes())
	// Output:
	// true
	// "\x02system\x03\x04[{\"name\":\"f\"}]\x02user\x03Hi"
}
