package gatewayapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // constant

func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	cfg := sqlite.DefaultConfig()
	cfg.Path = sqlitetest.Database(t)
	s, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// told remembers what an authenticator would be told.
type told struct{ revoked, forgotten []string }

func (t *told) Revoke(id string) { t.revoked = append(t.revoked, id) }
func (t *told) Forget(id string) { t.forgotten = append(t.forgotten, id) }

// parts are what keys and users are made of.
type parts struct {
	Store  *sqlite.Store
	Bands  []string
	Models func() auth.Models
	Told   auth.Told
	Where  string
	Now    func() time.Time // nil: it is start
	Pages  *gatewayapi.Pages
}

// made is what was made of them.
type made struct {
	*gatewayapi.Keys
	*gatewayapi.Users
	Run func(ctx context.Context) error
}

func newKeys(t *testing.T, p parts) made {
	t.Helper()
	if p.Now == nil {
		p.Now = func() time.Time { return start }
	}
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: p.Store, Bands: p.Bands, Models: p.Models, Told: p.Told, Now: p.Now})
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := account.New(account.DefaultConfig(), account.Deps{Store: p.Store, Issuer: issuer, Told: p.Told, Now: p.Now})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := gatewayapi.NewKeys(gatewayapi.KeysDeps{
		Store: p.Store, Issuer: issuer, Tells: p.Told != nil, Accounts: accounts, Pages: p.Pages, Where: p.Where, Now: p.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	users, err := gatewayapi.NewUsers(gatewayapi.UsersDeps{Accounts: accounts, Store: p.Store, Pages: p.Pages, Now: p.Now})
	if err != nil {
		t.Fatal(err)
	}
	return made{keys, users, issuer.Run}
}

// A key's whole life, with what the process and the audit log are told of it.
func TestKeys(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	var heard told
	keys := newKeys(t, parts{Store: st, Told: &heard, Bands: []string{"gold"}, Where: "sqlite:/x"})
	made, err := keys.CreateKey(ctx, &apipb.CreateKeyRequest{
		Name: "ci", Owner: "team-a", Band: "gold", Budget: "1.50/day@Europe/Berlin", Expires: "90d", Tags: map[string]string{"env": "prod"},
		Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(60)), Concurrency: new(int64(4))}, Actor: "cli:root@host",
		MayExplain: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	k := made.GetKey()
	hash, err := auth.ParseKey(made.GetSecret())
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := st.KeyByHash(ctx, hash); err != nil || kept.ID != k.GetId() {
		t.Errorf("the store has %v, %v under the hash of the secret; want key %s", kept.ID, err, k.GetId())
	}
	if k.GetState() != apipb.KeyState_KEY_STATE_USABLE || k.GetLimits().GetRequestsPerMinute() != 60 || k.GetLimits().TokensPerMinute != nil ||
		k.GetBudget() != "1.50/day@Europe/Berlin" || !k.GetExpiresAt().AsTime().Equal(start.Add(90*24*time.Hour)) || k.GetTags()["env"] != "prod" {
		t.Errorf("created %v", k)
	}

	shown, err := keys.GetKey(ctx, &apipb.GetKeyRequest{Id: k.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if b := shown.GetBudget(); b.GetLimitNanos() != 1_500_000_000 || b.GetSpentNanos() != 0 || !b.GetStart().AsTime().Equal(start.Truncate(24*time.Hour).Add(-time.Hour)) {
		t.Errorf("budget %v", b)
	}

	rotated, err := keys.RotateKey(ctx, &apipb.RotateKeyRequest{Id: k.GetId(), Overlap: durationpb.New(time.Hour), Actor: "cli:root@host"})
	if err != nil {
		t.Fatal(err)
	}
	if n := rotated.GetKey(); n.GetReplaces() != k.GetId() || n.GetLineage() != k.GetId() || !n.GetMayExplain() || rotated.GetSecret() == made.GetSecret() || rotated.OldNotEnded != nil ||
		!rotated.GetOld().GetExpiresAt().AsTime().Equal(start.Add(time.Hour)) {
		t.Errorf("rotated: %v, the old one %v", n, rotated.GetOld())
	}

	revoked, err := keys.RevokeKey(ctx, &apipb.RevokeKeyRequest{Id: k.GetId()})
	if err != nil || revoked.GetKey().GetState() != apipb.KeyState_KEY_STATE_REVOKED {
		t.Errorf("revoked: %v, %v", revoked, err)
	}
	if len(heard.revoked) != 1 || heard.revoked[0] != k.GetId() || len(heard.forgotten) != 1 {
		t.Errorf("told of %+v", heard)
	}
	if _, err := keys.RotateKey(ctx, &apipb.RotateKeyRequest{Id: k.GetId()}); !errors.Is(err, api.ErrPrecondition) {
		t.Errorf("rotating a revoked key: %v", err)
	}

	var ids []string
	for req := (&apipb.ListKeysRequest{PageSize: 1}); ; {
		page, err := keys.ListKeys(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page.GetKeys() {
			ids = append(ids, k.GetId())
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(ids) != 2 {
		t.Errorf("listed %v", ids)
	}
	usable, err := keys.ListKeys(ctx, &apipb.ListKeysRequest{UsableOnly: true, Owner: "team-a"})
	if err != nil || len(usable.GetKeys()) != 1 || usable.GetKeys()[0].GetId() != rotated.GetKey().GetId() {
		t.Errorf("usable: %v, %v", usable, err)
	}

	rows, _, err := st.ListAudit(ctx, storage.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	actors := map[string]int{}
	for _, a := range rows {
		actors[a.Action+" by "+a.Actor]++
		for _, s := range []string{made.GetSecret(), rotated.GetSecret()} {
			if strings.Contains(string(a.Before)+string(a.After), s) {
				t.Errorf("audit row %s has a secret", a.ID)
			}
		}
	}
	want := map[string]int{"key.create by cli:root@host": 1, "key.rotate by cli:root@host": 2, "key.revoke by api": 1}
	for what, n := range want {
		if actors[what] != n {
			t.Errorf("audited %v; want %v", actors, want)
		}
	}
}

// What cannot be a key is refused with the name of each field, in one line, and
// nothing is kept.
func TestKeysRefused(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	catalog := auth.Models{
		Version: 1, Names: func() []string { return []string{"b/coder"} },
		Resolve: func(name string) (string, bool) { return name, name == "b/coder" },
	}
	keys := newKeys(t, parts{Store: st, Bands: []string{"gold"}, Models: func() auth.Models { return catalog }})
	for name, tt := range map[string]struct {
		req  *apipb.CreateKeyRequest
		want []string
	}{
		"limits": {&apipb.CreateKeyRequest{Limits: &apipb.KeyLimits{
			RequestsPerMinute: new(int64(-5)), TokensPerMinute: new(int64(0)), Concurrency: new(int64(1 << 60)),
		}}, []string{"requests_per_minute: -5; want 1 to", "tokens_per_minute: 0", "concurrency: 1152921504606846976"}},
		"band":    {&apipb.CreateKeyRequest{Band: "golden"}, []string{`band: there is no "golden"; want one of gold`}},
		"model":   {&apipb.CreateKeyRequest{Models: []string{"b/codr"}}, []string{`there is no model "b/codr", but b/coder`}},
		"budget":  {&apipb.CreateKeyRequest{Budget: "1/day@Mars/Base"}, []string{`there is no time zone "Mars/Base"`}},
		"expired": {&apipb.CreateKeyRequest{Expires: "2020-01-01T00:00:00Z"}, []string{"expires: 2020-01-01T00:00:00Z is in the past"}},
		"empty":   {&apipb.CreateKeyRequest{Models: []string{""}}, []string{"models[0]", "is empty"}},
	} {
		_, err := keys.CreateKey(ctx, tt.req)
		if !errors.Is(err, api.ErrInvalid) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "auth:") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", name, err, want)
			}
		}
	}
	if list, _, err := st.ListKeys(ctx, storage.KeyQuery{}); err != nil || len(list) > 0 {
		t.Errorf("kept %v, %v", list, err)
	}
}

// Who names a key by something else is told which may be meant, and a key's text
// is not repeated.
func TestKeysSimilar(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	keys := newKeys(t, parts{Store: st})
	made, err := keys.CreateKey(ctx, &apipb.CreateKeyRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetKey().GetId()
	for name, asked := range map[string]string{
		"name": "CI", "hint": made.GetKey().GetHint(), "cut": id[:12], "without key_": strings.TrimPrefix(id, "key_")[:8],
		"a typo": id[:10] + "0" + id[11:],
	} {
		for what, call := range map[string]func() error{
			"get":    func() error { _, err := keys.GetKey(ctx, &apipb.GetKeyRequest{Id: asked}); return err },
			"revoke": func() error { _, err := keys.RevokeKey(ctx, &apipb.RevokeKeyRequest{Id: asked}); return err },
			"rotate": func() error { _, err := keys.RotateKey(ctx, &apipb.RotateKeyRequest{Id: asked}); return err },
		} {
			if err := call(); !errors.Is(err, api.ErrNotFound) || !strings.Contains(err.Error(), "did you mean "+id) {
				t.Errorf("%s by %s: %v", what, name, err)
			}
		}
	}
	if _, err := keys.GetKey(ctx, &apipb.GetKeyRequest{Id: "key_zzz"}); !errors.Is(err, api.ErrNotFound) || strings.Contains(err.Error(), "mean") {
		t.Errorf("nothing like it: %v", err)
	}
	if _, err := keys.GetKey(ctx, &apipb.GetKeyRequest{Id: made.GetSecret()}); !errors.Is(err, api.ErrInvalid) || strings.Contains(err.Error(), made.GetSecret()) {
		t.Errorf("the text of a key: %v", err)
	}
}

// While the store is away a revocation is told to the process, and everybody that
// it is not known.
func TestKeysAway(t *testing.T) {
	st := openStore(t)
	var heard told
	keys := newKeys(t, parts{Store: st, Told: &heard})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: "key_1"}); !errors.Is(err, api.ErrUnavailable) || len(heard.revoked) != 1 ||
		!strings.Contains(err.Error(), "this server refuses the key from now on") {
		t.Errorf("%v, told of %v", err, heard.revoked)
	}
	if _, err := keys.CreateKey(t.Context(), &apipb.CreateKeyRequest{}); !errors.Is(err, api.ErrUnavailable) || !strings.Contains(err.Error(), "whether something was changed") {
		t.Errorf("create: %v", err)
	}
	if _, err := keys.ListKeys(t.Context(), &apipb.ListKeysRequest{}); !errors.Is(err, api.ErrUnavailable) || strings.Contains(err.Error(), "changed") {
		t.Errorf("list: %v", err)
	}
}

// With somebody to write it, a revocation made while the store is away will be.
func TestKeysKeepRevocations(t *testing.T) {
	st := openStore(t)
	keys := newKeys(t, parts{Store: st, Told: new(told)})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- keys.Run(ctx) }()
	for {
		_, err := keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: "key_1"})
		if !errors.Is(err, api.ErrUnavailable) {
			t.Fatal(err)
		}
		if strings.Contains(err.Error(), "will be told when it does") && strings.Contains(err.Error(), "started anew before, that is lost") {
			break // until Run has begun it is not kept
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A change of a key changes what it says, once, and leaves an audit row; what no
// key can be is refused, and so is a change of another revision.
func TestKeysUpdate(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	var heard told
	keys := newKeys(t, parts{Store: st, Told: &heard, Bands: []string{"gold"}})
	made, err := keys.CreateKey(ctx, &apipb.CreateKeyRequest{
		Name: "ci", Owner: "team", Band: "gold", Budget: "1/day", Tags: map[string]string{"a": "1", "b": "2"}, Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(60))},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetKey().GetId()
	got, err := keys.UpdateKey(ctx, &apipb.UpdateKeyRequest{
		Id: id, Revision: 1, Owner: new("other"), Band: new(""), Budget: new("5/day"), Expires: new("1h"), MayExplain: new(true),
		Models: &apipb.KeyModels{Models: []string{"b/*"}}, Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(0)), Concurrency: new(int64(3))},
		SetTags: map[string]string{"c": "3"}, RemoveTags: []string{"a"}, Actor: "cli:me@host",
	})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := keys.GetKey(ctx, &apipb.GetKeyRequest{Id: id})
	if k := shown.GetKey(); err != nil || !proto.Equal(k, got.GetKey()) || k.GetName() != "ci" || k.GetOwner() != "other" || k.GetBand() != "" || k.GetBudget() != "5.00/day" ||
		!k.GetExpiresAt().AsTime().Equal(start.Add(time.Hour)) || !k.GetMayExplain() || len(k.GetModels()) != 1 || k.GetLimits().RequestsPerMinute != nil ||
		k.GetLimits().GetConcurrency() != 3 || len(k.GetTags()) != 2 || k.GetTags()["c"] != "3" || k.GetRevision() != 2 {
		t.Errorf("it is %v, and was said to be %v; %v", k, got.GetKey(), err)
	}
	if len(heard.forgotten) != 1 {
		t.Errorf("told of %+v", heard)
	}
	rows, _, err := st.ListAudit(ctx, storage.AuditQuery{})
	var row storage.Audit
	for _, r := range rows {
		if r.Action == "key.update" {
			row = r
		}
	}
	if err != nil || row.Actor != "cli:me@host" || !strings.Contains(string(row.Before), `"budget":"1.00/day"`) || !strings.Contains(string(row.After), `"budget":"5.00/day"`) ||
		strings.Contains(string(row.Before)+string(row.After), made.GetSecret()) {
		t.Errorf("audit rows %v: %v", rows, err)
	}
	for name, tt := range map[string]struct {
		req  *apipb.UpdateKeyRequest
		want error
		text string
	}{
		"revision": {&apipb.UpdateKeyRequest{Id: id, Revision: 1, Name: new("x")}, api.ErrPrecondition, "has revision 2, not 1"},
		"band":     {&apipb.UpdateKeyRequest{Id: id, Band: new("golden")}, api.ErrInvalid, "want one of gold"},
		"limit":    {&apipb.UpdateKeyRequest{Id: id, Limits: &apipb.KeyLimits{TokensPerMinute: new(int64(-1))}}, api.ErrInvalid, "tokens_per_minute: -1"},
		"budget":   {&apipb.UpdateKeyRequest{Id: id, Budget: new("5")}, api.ErrInvalid, "budget"},
		"past":     {&apipb.UpdateKeyRequest{Id: id, Expires: new("2020-01-01T00:00:00Z")}, api.ErrInvalid, "in the past"},
		"tag":      {&apipb.UpdateKeyRequest{Id: id, RemoveTags: []string{"zz"}}, api.ErrInvalid, `there is no "zz"`},
		"unknown":  {&apipb.UpdateKeyRequest{Id: "key_zz", Name: new("x")}, api.ErrNotFound, "there is no key"},
	} {
		if _, err := keys.UpdateKey(ctx, tt.req); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := keys.RevokeKey(ctx, &apipb.RevokeKeyRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.UpdateKey(ctx, &apipb.UpdateKeyRequest{Id: id, Name: new("x")}); !errors.Is(err, api.ErrPrecondition) {
		t.Errorf("a revoked key: %v", err)
	}
}

// What is told of limits is what the limiter counts.
func TestLimits(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	keys := newKeys(t, parts{Store: st})
	made, err := keys.CreateKey(ctx, &apipb.CreateKeyRequest{
		Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(10)), TokensPerMinute: new(int64(1000)), Concurrency: new(int64(3))}, Budget: "2/total",
	})
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetKey().GetId()
	limiter, err := limit.New(limit.DefaultConfig(), limit.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := gatewayapi.NewLimits(gatewayapi.LimitsDeps{
		Keys: st, Now: func() time.Time { return start },
		State: func(_ context.Context, now time.Time, s *limit.Subject) limit.State { return limiter.State(now, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	budget, err := limit.NewBudget(2_000_000_000, limit.PeriodTotal, "")
	if err != nil {
		t.Fatal(err)
	}
	sub := limit.Subject{ID: id, Limits: limit.Limits{RequestsPerMinute: 10, TokensPerMinute: 1000, Concurrency: 3}, Budget: budget}
	done, err := limiter.TryAcquire(start, &sub, limit.Request{Tokens: 100, CostNanos: 500_000_000})
	if err != nil {
		t.Fatal(err)
	}
	done.Settle(start, limit.Actual{Tokens: 50, CostNanos: 250_000_000})
	if _, err := limiter.TryAcquire(start, &sub, limit.Request{Tokens: 200, CostNanos: 100_000_000}); err != nil {
		t.Fatal(err)
	}
	got, err := limits.GetLimits(ctx, &apipb.GetLimitsRequest{KeyId: id})
	if err != nil {
		t.Fatal(err)
	}
	b := got.GetBudget()
	if got.GetRequests().GetRemaining() != 8 || got.GetTokens().GetRemaining() != 750 || got.GetInFlight() != 1 || got.KeyReadAt != nil || got.GetLineage() != id || got.GetConcurrency() != 3 ||
		!b.GetKnown() || !b.GetWhole() || b.GetSpentNanos() != 250_000_000 || b.GetReservedNanos() != 100_000_000 || b.GetFreeNanos() != 1_650_000_000 || b.GetEnd() != nil {
		t.Errorf("limits %v", got)
	}
	if _, err := limits.GetLimits(ctx, &apipb.GetLimitsRequest{KeyId: "key_none"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("no such key: %v", err)
	}
}

// While the store is away limits are told of keys that the server knows, with when
// they were read; of others nothing is made up.
func TestLimitsWithoutTheStore(t *testing.T) {
	st := openStore(t)
	k := storage.Key{ID: "key_b", Lineage: "key_a", Limits: storage.Limits{RequestsPerMinute: new(int64(10))}, CreatedAt: start}
	limiter, err := limit.New(limit.DefaultConfig(), limit.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := gatewayapi.NewLimits(gatewayapi.LimitsDeps{
		Keys: st, Now: func() time.Time { return start },
		State: func(_ context.Context, now time.Time, s *limit.Subject) limit.State { return limiter.State(now, s) },
		Known: func(id string) (*auth.Identity, time.Time, bool) {
			return auth.NewIdentity(k), start.Add(-time.Minute), id == k.ID
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limits.GetLimits(t.Context(), &apipb.GetLimitsRequest{KeyId: "key_b"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("the store has no such key: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.TryAcquire(start, &limit.Subject{ID: "key_a", Limits: limit.Limits{RequestsPerMinute: 10}}, limit.Request{}); err != nil {
		t.Fatal(err)
	}
	got, err := limits.GetLimits(t.Context(), &apipb.GetLimitsRequest{KeyId: "key_b"})
	if err != nil || got.GetKeyId() != "key_b" || got.GetLineage() != "key_a" || got.GetRequests().GetRemaining() != 9 ||
		!got.GetKeyReadAt().AsTime().Equal(start.Add(-time.Minute)) {
		t.Errorf("%v, %v", got, err)
	}
	for id, want := range map[string]error{"key_c": api.ErrUnavailable, "llmgw_abcdefghi": api.ErrInvalid} {
		if _, err := limits.GetLimits(t.Context(), &apipb.GetLimitsRequest{KeyId: id}); !errors.Is(err, want) || strings.Contains(err.Error(), "llmgw_abc") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Rows and sums come page by page, with zero and not known told apart.
func TestUsage(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	var rows []storage.Usage
	for i := range 5 {
		u := storage.Usage{
			RequestID: "r" + string(rune('0'+i)), KeyID: "key_1", Owner: "team-a", Model: "m", At: start.Add(time.Duration(i) * time.Hour),
			Latency: 2500 * time.Microsecond, Status: 200, Result: "ok", Source: storage.SourceEngine,
			Tokens: storage.Tokens{Input: new(int64(10)), Output: new(int64(0))}, CostNanos: new(int64(7)),
		}
		if i == 4 {
			u.Status, u.CostNanos, u.Tokens, u.TTFT = 502, nil, storage.Tokens{}, new(time.Millisecond)
		}
		rows = append(rows, u)
	}
	if _, err := st.InsertUsage(ctx, rows); err != nil {
		t.Fatal(err)
	}
	usage := gatewayapi.Usage{Store: st}
	var got []*apipb.UsageRow
	for req := (&apipb.ListUsageRequest{PageSize: 2, Filter: &apipb.UsageFilter{KeyId: "key_1"}}); ; {
		page, err := usage.ListUsage(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.GetRows()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(got) != 5 {
		t.Fatalf("%d rows", len(got))
	}
	if r := got[0]; r.OutputTokens == nil || *r.OutputTokens != 0 || r.CachedInputTokens != nil || r.Ttft != nil || r.GetCostNanos() != 7 ||
		r.GetLatency().AsDuration() != 2500*time.Microsecond || r.GetTokensSource() != "engine" {
		t.Errorf("first row %v", r)
	}
	if r := got[4]; r.CostNanos != nil || r.InputTokens != nil || r.GetTtft().AsDuration() != time.Millisecond {
		t.Errorf("last row %v", r)
	}
	sums, err := usage.ListUsageSums(ctx, &apipb.ListUsageSumsRequest{Grain: apipb.UsageGrain_USAGE_GRAIN_DAY})
	if err != nil || len(sums.GetSums()) != 1 {
		t.Fatalf("sums %v, %v", sums, err)
	}
	if s := sums.GetSums()[0]; s.GetRequests() != 5 || s.GetFailed() != 1 || s.GetInputTokens() != 40 || s.GetCostNanos() != 28 {
		t.Errorf("sum %v", s)
	}
	if _, err := usage.ListUsage(ctx, &apipb.ListUsageRequest{PageToken: "nonsense"}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("a token that nobody gave: %v", err)
	}
}
