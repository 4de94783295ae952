package record_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/storage/record"
)

// runOnce writes what is buffered and ends the log.
func runOnce(t testing.TB, l *record.Log) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

// cmpEmpty takes no entries and none at all for the same.
func cmpEmpty() cmp.Option { return cmpopts.EquateEmpty() }
