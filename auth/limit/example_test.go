package limit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
)

// A request is charged before it runs and settled when it has ended.
func Example() {
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{})
	if err != nil {
		panic(err)
	}
	budget, err := limit.NewBudget(1_500_000_000, limit.PeriodDay, "Europe/Berlin") // 1.50 a day
	if err != nil {
		panic(err)
	}
	key := &limit.Subject{ID: "key-1", Limits: limit.Limits{RequestsPerMinute: 60, TokensPerMinute: 10_000, Concurrency: 4}, Budget: budget}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

	res, err := l.Acquire(context.Background(), now, key, limit.Request{Tokens: 4000, CostNanos: 90_000_000})
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	res.Rates().OpenAI(header)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Println(name, header.Get(name))
	}
	res.Settle(now.Add(2*time.Second), limit.Actual{Tokens: 1500, CostNanos: 20_000_000})

	state := l.State(now.Add(2*time.Second), key)
	fmt.Println(state.Rates.Tokens.Remaining, "tokens left")
	fmt.Println(state.Budget.SpentNanos, "spent,", state.Budget.ReservedNanos, "reserved")
	// Output:
	// X-Ratelimit-Limit-Requests 60
	// X-Ratelimit-Limit-Tokens 10000
	// X-Ratelimit-Remaining-Requests 59
	// X-Ratelimit-Remaining-Tokens 6000
	// X-Ratelimit-Reset-Requests 1m0s
	// X-Ratelimit-Reset-Tokens 1m0s
	// 8500 tokens left
	// 20000000 spent, 0 reserved
}

// The minute of 12:00:00 has no edge.
func ExampleLimiter_Acquire() {
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{})
	if err != nil {
		panic(err)
	}
	key := &limit.Subject{ID: "key-1", Limits: limit.Limits{RequestsPerMinute: 3}}
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 59500, 59500, 59900, 60000, 60100} {
		after *= time.Millisecond
		_, err := l.Acquire(context.Background(), noon.Add(after), key, limit.Request{})
		fmt.Print(noon.Add(after).Format("15:04:05.0"))
		limited, ok := errors.AsType[*limit.LimitedError](err)
		if !ok {
			fmt.Println(" passes")
			continue
		}
		fmt.Print(" refused")
		for name, value := range limited.Retry() {
			fmt.Print(", ", name, ": ", value)
		}
		fmt.Println()
	}
	// Output:
	// 12:00:00.0 passes
	// 12:00:59.5 passes
	// 12:00:59.5 passes
	// 12:00:59.9 refused, Retry-After: 1, retry-after-ms: 100
	// 12:01:00.0 passes
	// 12:01:00.1 refused, Retry-After: 60, retry-after-ms: 59900
}

// What was spent before a restart is asked of the store before the first charge.
func ExampleRestore() {
	source := limit.Restore(func(_ context.Context, b limit.BudgetID) (int64, error) {
		fmt.Println("asked for the", b.Period, "of", b.Start.Format(time.DateOnly))
		return 990_000_000, nil
	})
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{Source: source})
	if err != nil {
		panic(err)
	}
	budget, err := limit.NewBudget(1_000_000_000, limit.PeriodMonth, "")
	if err != nil {
		panic(err)
	}
	key := &limit.Subject{ID: "key-1", Budget: budget}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	_, err = l.Acquire(context.Background(), now, key, limit.Request{CostNanos: 20_000_000})
	fmt.Println(err)
	_, err = l.Acquire(context.Background(), now, key, limit.Request{CostNanos: 10_000_000})
	fmt.Println(err)
	// Output:
	// asked for the month of 2026-03-01
	// limit: what is left of the budget of key-1 is less than the request can cost
	// <nil>
}
