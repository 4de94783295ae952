package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

func TestMeter(t *testing.T) {
	reg, up := prometheus.NewRegistry(), false
	m, err := backend.NewMeter(reg, func() bool { return up })
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		nil, nil, storage.ErrNotFound, storage.ErrExists, storage.ErrFull, storage.ErrConflict, storage.ErrBudgetSpent, storage.ErrSchema, storage.ErrInvalid,
		storage.ErrUnavailable, fmt.Errorf("%w: %w", storage.ErrUnavailable, context.Canceled), errors.New("of a kind that nobody knows"),
	} {
		m.Ended("list roll-ups", time.Now(), err)
	}
	m.Ended("key", time.Now(), nil)
	check := func(names ...string) {
		t.Helper()
		want := `# HELP llmgw_store_operations_total Calls of the store, by how they ended.
# TYPE llmgw_store_operations_total counter
llmgw_store_operations_total{operation="key",outcome="ok"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="budget_spent"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="canceled"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="conflict"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="exists"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="full"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="invalid"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="not_found"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="ok"} 2
llmgw_store_operations_total{operation="list_rollups",outcome="schema"} 1
llmgw_store_operations_total{operation="list_rollups",outcome="unavailable"} 2
# HELP llmgw_store_up 1 while the store is open and reached; 0 while every call is refused.
# TYPE llmgw_store_up gauge
llmgw_store_up ` + map[bool]string{false: "0\n", true: "1\n"}[up]
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
	}
	check("llmgw_store_operations_total", "llmgw_store_up")
	up = true
	check("llmgw_store_operations_total", "llmgw_store_up")
	if n, err := testutil.GatherAndCount(reg, "llmgw_store_operation_seconds"); err != nil || n != 2 {
		t.Errorf("%d histograms, %v", n, err)
	}
	if _, err := backend.NewMeter(reg, func() bool { return up }); err == nil {
		t.Error("two stores of one registry")
	}
	backend.Meter{}.Ended("key", time.Now(), nil) // counts nothing
}
