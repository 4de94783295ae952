package ask

import (
	"bytes"
	"testing"
)

func TestOutputIsBounded(t *testing.T) {
	var l limited
	chunk := bytes.Repeat([]byte("x"), 300_000)
	for range 10 {
		if n, err := l.Write(chunk); n != len(chunk) || err != nil {
			t.Fatalf("Write = %d, %v: the process would see a broken pipe", n, err)
		}
	}
	if l.Len() != mostOutput {
		t.Errorf("%d bytes are kept; want %d", l.Len(), mostOutput)
	}
}
