package storagetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

// Open returns a store that is open. Each call returns another one on the same
// database, as another process would have it; the suite closes them.
type Open func(t *testing.T) storage.Store

// Run runs the suite. fresh makes a database that keeps nothing yet.
func Run(t *testing.T, fresh func(t *testing.T) Open) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open Open)
	}{
		{"Keys", testKeys},
		{"KeyIdentity", testKeyIdentity},
		{"KeyUpdate", testKeyUpdate},
		{"KeyRevoke", testKeyRevoke},
		{"KeyList", testKeyList},
		{"Audit", testAudit},
		{"UsageRoundTrip", testUsageRoundTrip},
		{"UsageOnce", testUsageOnce},
		{"UsageAgain", testUsageAgain},
		{"UsageTexts", testUsageTexts},
		{"UsageOnceConcurrently", testUsageConcurrent},
		{"UsageList", testUsageList},
		{"UsageLineage", testUsageLineage},
		{"UsageOfKey", testUsageOfKey},
		{"UsageSums", testUsageSums},
		{"UsagePrune", testUsagePrune},
		{"Grant", testGrant},
		{"GrantReturn", testReturn},
		{"GrantModel", testGrantModel},
		{"GrantConcurrently", testGrantConcurrent},
		{"BudgetPrune", testBudgetPrune},
		{"Routers", testRouters},
		{"Terms", testTerms},
		{"Fence", testFence},
		{"TermsConcurrently", testTermsConcurrently},
		{"Nodes", testNodes},
		{"Cordons", testCordons},
		{"Replicas", testReplicas},
		{"Models", testModels},
		{"ModelsRefused", testModelsRefused},
		{"ModelsModel", testModelsModel},
		{"FleetModel", testFleetModel},
		{"FleetRefused", testFleetRefused},
		{"Accounts", testAccounts},
		{"AccountUpdate", testAccountUpdate},
		{"AccountsPending", testAccountsPending},
		{"AccountList", testAccountList},
		{"AccountKeys", testAccountKeys},
		{"AccountKeysConcurrently", testAccountKeysConcurrent},
		{"AccountLineage", testAccountLineage},
		{"AccountsPrune", testAccountsPrune},
		{"Sessions", testSessions},
		{"SessionsMost", testSessionsMost},
		{"SessionsConcurrently", testSessionsConcurrent},
		{"Links", testLinks},
		{"KeyLinks", testKeyLinks},
		{"ResetLinks", testResetLinks},
		{"StaleResetLinks", testStaleResetLinks},
		{"Attempts", testAttempts},
		{"Providers", testProviders},
		{"ProvidersSeen", testProvidersSeen},
		{"ProvidersRefused", testProvidersRefused},
		{"ProvidersModel", testProvidersModel},
		{"ProviderList", testProviderList},
		{"Refused", testRefused},
		{"Pages", testPages},
		{"Ended", testEnded},
		{"Close", testClose},
		{"Transfer", func(t *testing.T, open Open) { testTransfer(t, open, fresh) }},
		{"TransferRefused", func(t *testing.T, open Open) { testTransferRefused(t, open, fresh) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			open := fresh(t)
			test.run(t, func(t *testing.T) storage.Store {
				t.Helper()
				s := open(t)
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
				return s
			})
		})
	}
}

// Epoch is when the suite's records begin: a Monday's midnight of UTC.
var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func ok(t reporter, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t reporter, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want an error that is %v", what, err, want)
	}
}

func equal(t reporter, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// sound ends a test that changed sums.
func sound(t *testing.T, s storage.Store) {
	t.Helper()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func because(id string) storage.Audit {
	return storage.Audit{ID: id, At: epoch, Actor: "cli:root@host", Action: "key.change", Target: "k", After: []byte(`{"name":"a<b>"}`)}
}

func simpleKey(n int) storage.Key {
	k := storage.Key{ID: fmt.Sprintf("key-%03d", n), Owner: "ada", CreatedAt: epoch.Add(time.Duration(n) * time.Minute)}
	copy(k.Hash[:], fmt.Sprintf("hash-%d", n))
	return k
}

func fullKey() storage.Key {
	return storage.Key{
		ID: "full", Hash: storage.KeyHash{1, 0, 255}, Hint: "sk-…abcd", Name: "näme 'quoted\"", Owner: "team;--", Models: []string{"qwen3", "llama/*"},
		Band: "gold", Limits: storage.Limits{RequestsPerMinute: new(int64(60)), TokensPerMinute: new(int64(100_000)), Concurrency: new(int64(4))},
		Budget: &storage.Budget{Nanos: 1_500_000_000, Period: storage.PeriodMonth, Zone: "Europe/Berlin"},
		Tags:   map[string]string{"env": "prod", "empty": ""}, CreatedAt: epoch.Add(123456789), ExpiresAt: epoch.Add(time.Hour),
		RevokedAt: epoch.Add(30 * time.Minute), Replaces: "old", Lineage: "oldest", MayExplain: true,
	}
}

func simpleUsage(n int) storage.Usage {
	return storage.Usage{
		RequestID: fmt.Sprintf("req-%05d", n), KeyID: "k", Owner: "ada", Asked: "qwen3", Model: "qwen3", Path: "/v1/chat/completions",
		At: epoch.Add(time.Duration(n) * time.Second), Latency: time.Second, Status: 200, Result: "ok", Source: storage.SourceEngine,
		Tokens: storage.Tokens{Input: new(int64(100)), Output: new(int64(20))}, CostNanos: new(int64(1000)),
	}
}

// everything reads all pages of a list.
func everything[T any](t reporter, limit int, list func(p storage.Page) ([]T, string, error)) []T {
	t.Helper()
	var out []T
	for p := (storage.Page{Limit: limit}); ; {
		part, next, err := list(p)
		ok(t, err)
		if limit > 0 && len(part) > limit {
			t.Fatalf("a page of %d rows has %d", limit, len(part))
		}
		out = append(out, part...)
		if next == "" {
			return out
		}
		if len(part) == 0 || next == p.After {
			t.Fatal("a page is empty, and another one is to follow")
		}
		p.After = next
	}
}

func usageOf(t reporter, s storage.UsageLog, q storage.UsageQuery) []storage.Usage {
	return everything(t, 0, func(p storage.Page) ([]storage.Usage, string, error) {
		q.Page = p
		return s.ListUsage(context.Background(), q)
	})
}

func sumsOf(t reporter, s storage.UsageLog, q storage.RollupQuery) []storage.Rollup {
	return everything(t, 7, func(p storage.Page) ([]storage.Rollup, string, error) {
		q.Page = p
		return s.ListRollups(context.Background(), q)
	})
}

func auditOf(t reporter, s storage.AuditLog) []storage.Audit {
	return everything(t, 0, func(p storage.Page) ([]storage.Audit, string, error) {
		return s.ListAudit(context.Background(), storage.AuditQuery{Page: p})
	})
}

// reporter is what a test and one run of a property have in common.
type reporter interface {
	Context() context.Context
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// check is rapid.Check with so many runs only: each asks a database. Under the race
// detector it is a fifth of them.
func check(t *testing.T, runs int, property func(t *rapid.T)) {
	t.Helper()
	if raced {
		runs /= 5
	}
	run, failed := 0, false
	rapid.Check(t, func(t *rapid.T) {
		if run++; run > runs && !failed {
			return // more runs only make a failure smaller
		}
		defer func() { failed = failed || t.Failed() }()
		property(t)
	})
}
