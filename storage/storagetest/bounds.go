package storagetest

import (
	"context"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

func testRefused(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	bad := simpleKey(1)
	bad.Name = "a\x00b"
	wantErr(t, "a key with NUL", s.CreateKey(ctx, bad, because("a")), storage.ErrInvalid)
	wantErr(t, "a change to NUL", s.UpdateKey(ctx, bad, because("a")), storage.ErrInvalid)
	wantErr(t, "a key without why", s.CreateKey(ctx, simpleKey(1), storage.Audit{}), storage.ErrInvalid)
	_, err := s.RevokeKey(ctx, "k", epoch, storage.Audit{})
	wantErr(t, "an end without why", err, storage.ErrInvalid)
	wantErr(t, "an audit row without a time", s.AppendAudit(ctx, storage.Audit{ID: "a", Action: "x"}), storage.ErrInvalid)
	_, err = s.GrantBudget(ctx, storage.GrantRequest{})
	wantErr(t, "a grant of nothing", err, storage.ErrInvalid)
	_, err = s.Budget(ctx, storage.BudgetPeriod{})
	wantErr(t, "no budget", err, storage.ErrInvalid)
	_, err = s.ListGrants(ctx, storage.BudgetPeriod{KeyID: "k", Period: 9})
	wantErr(t, "a budget of no period", err, storage.ErrInvalid)
	_, _, err = s.ListRollups(ctx, storage.RollupQuery{})
	wantErr(t, "sums of no grain", err, storage.ErrInvalid)
	_, _, err = s.PruneUsage(ctx, storage.Retention{Rows: epoch})
	wantErr(t, "no rows at most", err, storage.ErrInvalid)
	_, _, err = s.PruneBudgets(ctx, epoch, 0)
	wantErr(t, "no budgets at most", err, storage.ErrInvalid)
	_, err = s.RenewRouter(ctx, "", 1e9)
	wantErr(t, "a router without a name", err, storage.ErrInvalid)
	noState := simpleAccount(1)
	noState.State = 0
	wantErr(t, "an account of no state", s.CreateAccount(ctx, noState, 1, because("a")), storage.ErrInvalid)
	wantErr(t, "a change to no state", s.UpdateAccount(ctx, noState, because("a")), storage.ErrInvalid)
	wantErr(t, "an account without why", s.CreateAccount(ctx, simpleAccount(1), 1, storage.Audit{}), storage.ErrInvalid)
	wantErr(t, "no password", s.RehashAccount(ctx, "a", "b", ""), storage.ErrInvalid)
	wantErr(t, "a session of nobody", s.CreateSession(ctx, simpleSession("", 1), 1), storage.ErrInvalid)
	wantErr(t, "a session's use at no time", s.TouchSession(ctx, "a", time.Time{}), storage.ErrInvalid)
	wantErr(t, "a link to nothing", s.CreateLink(ctx, storage.Link{}, because("a")), storage.ErrInvalid)
	_, err = s.TakeAttempt(ctx, 1, time.Time{}, throttle())
	wantErr(t, "an attempt at no time", err, storage.ErrInvalid)
	equal(t, "nothing was kept", len(auditOf(t, s)), 0)
}

// testPages gives every list what is no cursor of it.
func testPages(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	f := lead(t, s)
	for n := range 2 {
		ok(t, s.PutNodes(ctx, f, []storage.Node{simpleNode(n)}))
		ok(t, s.PutReplica(ctx, f, simpleReplica(n)))
		ok(t, s.CreateKey(ctx, simpleKey(n), because(simpleKey(n).ID)))
		ok(t, s.CreateAccount(ctx, simpleAccount(n), 0, because(simpleAccount(n).ID)))
		ok(t, s.CreateProvider(ctx, f, simpleProvider(n), because(simpleProvider(n).ID)))
		_, err := s.InsertUsage(ctx, []storage.Usage{simpleUsage(n * 3600)})
		ok(t, err)
	}
	lists := map[string]func(p storage.Page) (string, error){
		"keys": func(p storage.Page) (string, error) {
			_, next, err := s.ListKeys(ctx, storage.KeyQuery{Page: p})
			return next, err
		},
		"usage": func(p storage.Page) (string, error) {
			_, next, err := s.ListUsage(ctx, storage.UsageQuery{Page: p})
			return next, err
		},
		"sums": func(p storage.Page) (string, error) {
			_, next, err := s.ListRollups(ctx, storage.RollupQuery{Grain: storage.GrainHour, Page: p})
			return next, err
		},
		"nodes": func(p storage.Page) (string, error) {
			_, next, err := s.ListNodes(ctx, p)
			return next, err
		},
		"replicas": func(p storage.Page) (string, error) {
			_, next, err := s.ListReplicas(ctx, storage.ReplicaQuery{Page: p})
			return next, err
		},
		"accounts": func(p storage.Page) (string, error) {
			_, next, err := s.ListAccounts(ctx, storage.AccountQuery{Page: p}, epoch)
			return next, err
		},
		"providers": func(p storage.Page) (string, error) {
			_, next, err := s.ListProviders(ctx, storage.ProviderQuery{Page: p})
			return next, err
		},
		"audit": func(p storage.Page) (string, error) {
			_, next, err := s.ListAudit(ctx, storage.AuditQuery{Page: p})
			return next, err
		},
	}
	cursors := map[string]string{"words": "not a cursor", "binary": "\x00\xff"}
	for name, list := range lists {
		next, err := list(storage.Page{Limit: 1})
		ok(t, err)
		if next == "" {
			t.Fatalf("%s: one row of two, and no cursor", name)
		}
		cursors[name] = next
		changed := []byte(next)
		changed[5] = "AB"[next[5]&1] // a letter of the other parity: it differs
		cursors["changed "+name] = string(changed)
	}
	for name, list := range lists {
		for whose, cursor := range cursors {
			_, err := list(storage.Page{After: cursor})
			if whose == name {
				ok(t, err)
			} else {
				wantErr(t, name+" with the cursor "+whose, err, storage.ErrInvalid)
			}
		}
		for _, limit := range []int{-1, 10001} {
			_, err := list(storage.Page{Limit: limit})
			wantErr(t, name+" with a bad limit", err, storage.ErrInvalid)
		}
	}
}

// everyMethod calls each that asks the database.
func everyMethod(ctx context.Context, s storage.Store) map[string]error {
	fence := storage.Fence{Cluster: cluster, Term: 1}
	errs := map[string]error{
		"CreateKey":    s.CreateKey(ctx, simpleKey(1), because("a")),
		"UpdateKey":    s.UpdateKey(ctx, simpleKey(1), because("a")),
		"AppendAudit":  s.AppendAudit(ctx, because("a")),
		"ReturnBudget": s.ReturnBudget(ctx, "g", 1, epoch),
		"RemoveRouter": s.RemoveRouter(ctx, "r"),
		"Check":        s.Check(ctx),

		"PutNodes":      s.PutNodes(ctx, fence, []storage.Node{simpleNode(1)}),
		"RemoveNode":    s.RemoveNode(ctx, fence, "n", because("a")),
		"SetCordon":     s.SetCordon(ctx, storage.Cordon{Node: "n", Target: storage.TargetDrained, At: epoch}, because("a")),
		"ClearCordon":   s.ClearCordon(ctx, "n", because("a")),
		"PutReplica":    s.PutReplica(ctx, fence, simpleReplica(1)),
		"RemoveReplica": s.RemoveReplica(ctx, fence, "r", 1),
		"PutModels":     s.PutModels(ctx, []storage.ModelChange{{Model: simpleModel(1), Why: because("a")}}),
		"RemoveModel":   s.RemoveModel(ctx, "m", 1, because("a")),

		"CreateProvider": s.CreateProvider(ctx, fence, simpleProvider(1), because("a")),
		"UpdateProvider": s.UpdateProvider(ctx, fence, simpleProvider(1), because("a")),
		"SeeProviders":   s.SeeProviders(ctx, fence, []storage.ProviderSeen{{ID: "p"}}),
		"DeleteProvider": s.DeleteProvider(ctx, fence, "p", 1, because("a")),

		"CreateAccount":    s.CreateAccount(ctx, simpleAccount(1), 1, because("a")),
		"UpdateAccount":    s.UpdateAccount(ctx, simpleAccount(1), because("a")),
		"RehashAccount":    s.RehashAccount(ctx, "a", "b", "c"),
		"CreateSession":    s.CreateSession(ctx, simpleSession("a", 1), 1),
		"TouchSession":     s.TouchSession(ctx, "s", epoch),
		"EndSession":       s.EndSession(ctx, "a", "s"),
		"CreateLink":       s.CreateLink(ctx, keyLink(1), because("a")),
		"RedeemKeyLink":    s.RedeemKeyLink(ctx, tokenOf("l"), epoch, simpleKey(1), because("a")),
		"ForgiveAttempts":  s.ForgiveAttempts(ctx, 1),
		"CreateAccountKey": s.CreateAccountKey(ctx, accountKey("a", 1), 1, because("a")),
	}
	_, errs["Account"] = s.Account(ctx, "a")
	_, errs["AccountByAddress"] = s.AccountByAddress(ctx, "a")
	_, _, errs["ListAccounts"] = s.ListAccounts(ctx, storage.AccountQuery{}, epoch)
	_, _, errs["Session"] = s.Session(ctx, tokenOf("s"), epoch, epoch)
	_, errs["ListSessions"] = s.ListSessions(ctx, "a", epoch, epoch)
	_, errs["EndSessions"] = s.EndSessions(ctx, "a", "")
	_, errs["Link"] = s.Link(ctx, tokenOf("l"))
	_, errs["RedeemResetLink"] = s.RedeemResetLink(ctx, tokenOf("l"), epoch, "p", because("a"))
	_, errs["RevokeLink"] = s.RevokeLink(ctx, "l", epoch, because("a"))
	_, errs["TakeAttempt"] = s.TakeAttempt(ctx, 1, epoch, throttle())
	_, errs["RevokeAccountKey"] = s.RevokeAccountKey(ctx, "a", "k", epoch, because("a"))
	_, _, errs["PruneAccounts"] = s.PruneAccounts(ctx, storage.StaleAccounts{Most: 1, Pending: epoch})
	_, errs["Provider"] = s.Provider(ctx, "p")
	_, errs["ProviderByName"] = s.ProviderByName(ctx, "p")
	_, errs["ProviderByBaseURL"] = s.ProviderByBaseURL(ctx, "p")
	_, _, errs["ListProviders"] = s.ListProviders(ctx, storage.ProviderQuery{})
	_, errs["BeginTerm"] = s.BeginTerm(ctx, storage.TermRequest{Cluster: cluster, At: epoch})
	_, errs["Term"] = s.Term(ctx)
	_, errs["Node"] = s.Node(ctx, "n")
	_, _, errs["ListNodes"] = s.ListNodes(ctx, storage.Page{})
	_, errs["ListModels"] = s.ListModels(ctx)
	_, errs["ListCordons"] = s.ListCordons(ctx)
	_, errs["Replica"] = s.Replica(ctx, "r")
	_, _, errs["ListReplicas"] = s.ListReplicas(ctx, storage.ReplicaQuery{})
	_, errs["Key"] = s.Key(ctx, "k")
	_, errs["KeyByHash"] = s.KeyByHash(ctx, storage.KeyHash{1})
	_, _, errs["ListKeys"] = s.ListKeys(ctx, storage.KeyQuery{})
	_, errs["RevokeKey"] = s.RevokeKey(ctx, "k", epoch, because("a"))
	_, errs["InsertUsage"] = s.InsertUsage(ctx, []storage.Usage{simpleUsage(1)})
	_, _, errs["ListUsage"] = s.ListUsage(ctx, storage.UsageQuery{})
	_, _, errs["ListRollups"] = s.ListRollups(ctx, storage.RollupQuery{Grain: storage.GrainDay})
	_, _, errs["PruneUsage"] = s.PruneUsage(ctx, storage.Retention{Rows: epoch, Most: 1})
	_, errs["GrantBudget"] = s.GrantBudget(ctx, ask("g", dayOf("k"), 1, 1, 1))
	_, errs["Budget"] = s.Budget(ctx, dayOf("k"))
	_, errs["ListGrants"] = s.ListGrants(ctx, dayOf("k"))
	_, _, errs["PruneBudgets"] = s.PruneBudgets(ctx, epoch, 1)
	_, errs["RenewRouter"] = s.RenewRouter(ctx, "r", 1e9)
	_, _, errs["ListAudit"] = s.ListAudit(ctx, storage.AuditQuery{})
	return errs
}

// Unavailable reports an error for each method of a store that does not return
// [storage.ErrUnavailable]: of one that was closed, is not open yet, or cannot
// reach its database.
func Unavailable(ctx context.Context, t testing.TB, s storage.Store) {
	t.Helper()
	for method, err := range everyMethod(ctx, s) {
		wantErr(t, method, err, storage.ErrUnavailable)
	}
}

// A call whose context has ended says so, and that it may have been done.
func testEnded(t *testing.T, open Open) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, err := range everyMethod(ctx, s) {
		wantErr(t, method, err, storage.ErrUnavailable)
		wantErr(t, method, err, context.Canceled)
	}
	sound(t, s)
}

func testClose(t *testing.T, open Open) {
	s, other := open(t), open(t)
	ok(t, s.Close())
	ok(t, s.Close())
	Unavailable(t.Context(), t, s)
	sound(t, other)
}
