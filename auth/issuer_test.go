package auth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

var start26 = time.Date(2026, 11, 30, 12, 0, 0, 1234, time.UTC)

func newIssuer(t testing.TB, store *memStore, change func(*auth.IssuerDeps)) *auth.Issuer {
	t.Helper()
	deps := auth.IssuerDeps{
		Keys: store, Bands: []string{"gold", "bronze"}, Models: func() auth.Models { return catalog().version(1) },
		Now: func() time.Time { return start26 },
	}
	if change != nil {
		change(&deps)
	}
	s, err := auth.NewIssuer(deps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var me = auth.By{Actor: "cli:root@host", RequestID: "req_1"}

func TestCreate(t *testing.T) {
	store := newStore()
	issued, err := newIssuer(t, store, nil).Create(t.Context(), auth.Spec{
		Name: "laptop", Owner: "ada", Models: []string{"coder", "b/*", "coder"}, Band: "gold",
		Limits: storage.Limits{RequestsPerMinute: new(int64(60)), TokensPerMinute: new(int64(1000)), Concurrency: new(int64(2))},
		Budget: "1.50/day@Europe/Berlin", Expires: "90d", Tags: map[string]string{"team": "x", "empty": ""},
	}, me)
	if err != nil {
		t.Fatal(err)
	}
	k := issued.Key
	h, err := auth.ParseKey(issued.Secret.Reveal())
	if err != nil || h != k.Hash || k.Hint != issued.Secret.Hint() || !strings.HasPrefix(k.ID, "key_") || k.Revision != 1 {
		t.Errorf("%v; %+v", err, k)
	}
	if !slices.Equal(k.Models, []string{"coder", "b/*"}) || k.Name != "laptop" || k.Owner != "ada" || k.Band != "gold" || *k.Limits.Concurrency != 2 ||
		*k.Budget != (storage.Budget{Nanos: 1_500_000_000, Period: storage.PeriodDay, Zone: "Europe/Berlin"}) || len(k.Tags) != 2 {
		t.Errorf("%+v", k)
	}
	now := start26.Truncate(time.Microsecond)
	if !k.CreatedAt.Equal(now) || !k.ExpiresAt.Equal(now.Add(90*24*time.Hour)) || !k.RevokedAt.IsZero() {
		t.Errorf("%v to %v", k.CreatedAt, k.ExpiresAt)
	}
	kept, err := store.KeyByHash(t.Context(), h)
	if err != nil || fmt.Sprint(auth.Info(kept)) != fmt.Sprint(auth.Info(k)) {
		t.Errorf("kept is %+v, %v", kept, err)
	}
	if len(store.audits) != 1 {
		t.Fatalf("%d audit rows", len(store.audits))
	}
	row := store.audits[0]
	want := `{"id":"` + k.ID + `","hint":"` + k.Hint + `","name":"laptop","owner":"ada","models":["coder","b/*"],"band":"gold",` +
		`"tags":{"empty":"","team":"x"},"requests_per_minute":60,"tokens_per_minute":1000,"concurrency":2,` +
		`"budget":"1.50/day@Europe/Berlin","created_at":"2026-11-30T12:00:00.000001Z","expires_at":"2027-02-28T12:00:00.000001Z"}`
	if string(row.After) != want || row.Before != nil || row.Action != "key.create" || row.Target != k.ID || row.Actor != me.Actor ||
		row.RequestID != "req_1" || !strings.HasPrefix(row.ID, "audit_") || len(row.ID) > 64 {
		t.Errorf("audit row %+v\nafter %s\nwant  %s", row, row.After, want)
	}
}

func TestCreateSaysAllFaults(t *testing.T) {
	store := newStore()
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint(i)] = ""
	}
	for _, test := range []struct {
		name string
		spec auth.Spec
		want []string
	}{
		{"limits", auth.Spec{Limits: storage.Limits{RequestsPerMinute: new(int64(0)), TokensPerMinute: new(int64(-5)), Concurrency: new(int64(1 << 40))}},
			[]string{"requests_per_minute: 0; want 1 to", "tokens_per_minute: -5", "concurrency: 1099511627776; want 1 to 1000000"}},
		{"texts", auth.Spec{Name: strings.Repeat("x", 257), Owner: "a\nb", Band: "gold\u202e"},
			[]string{"name: has 257 bytes", "owner: contains an invisible", "band: contains an invisible"}},
		{"not UTF-8", auth.Spec{Name: "\xff"}, []string{"name: is not UTF-8"}},
		{"band", auth.Spec{Band: "platinum"}, []string{`band: there is no "platinum"; want one of gold, bronze`}},
		{"models that are none", auth.Spec{Models: []string{}}, []string{"the list is empty and would allow nothing"}},
		{"models", auth.Spec{Models: []string{"b/codr", "Hidden", "chat", "qwen*", "nothing-like-it"}}, []string{`models[3]: auth: invalid: model "qwen*"`}},
		{"models of no catalog", auth.Spec{Models: []string{"b/codr", "Hidden", "chat", "nothing-like-it"}},
			[]string{`no model "b/codr", but b/coder`, `no model "Hidden", but hidden`, `no model "chat", but b/chat`, `no model "nothing-like-it"`}},
		{"too many models", auth.Spec{Models: slices.Repeat([]string{"coder"}, 257)}, []string{"there are 257; want at most 256"}},
		{"too long a list", auth.Spec{Models: slices.Repeat([]string{strings.Repeat("x", 256)}, 65)}, []string{"16640 bytes in all"}},
		{"tags", auth.Spec{Tags: map[string]string{"": "x", "y": strings.Repeat("x", 129), "z\x00": ""}},
			[]string{"a name is empty", "tags[y]: has 129 bytes", "a name contains an invisible"}},
		{"too many tags", auth.Spec{Tags: many}, []string{"there are 33; want at most 32"}},
		{"money and time", auth.Spec{Budget: "1.50", Expires: "yesterday"}, []string{"no period", `expires: "yesterday"`}},
		{"past", auth.Spec{Expires: "2026-11-30T12:00:00Z"}, []string{"in the past"}},
		{"too far", auth.Spec{Expires: "2327-01-01T00:00:00Z"}, []string{"more than a hundred years"}},
		{"no time", auth.Spec{Expires: "0d"}, []string{"in the past"}},
		{"back", auth.Spec{Expires: "-1h"}, []string{"in the past"}},
		{"a key where a name belongs", auth.Spec{Name: canary(t).Reveal(), Band: canary(t).Reveal(), Models: []string{canary(t).Reveal()},
			Budget: canary(t).Reveal(), Expires: canary(t).Reveal(), Tags: map[string]string{canary(t).Reveal(): canary(t).Reveal()}},
			[]string{"name: contains an API key", "band: contains an API key", `no model "[redacted]"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			issued, err := newIssuer(t, store, nil).Create(t.Context(), test.spec, me)
			if !errors.Is(err, auth.ErrInvalid) || issued.Secret.Reveal() != "" {
				t.Fatalf("%v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %s", err, want)
				}
			}
			if spilled(t, err.Error()) {
				t.Error("the error repeats a key")
			}
		})
	}
	if len(store.keys) != 0 || len(store.audits) != 0 {
		t.Error("something was kept")
	}
}

// pricing gives those models of the catalog a price.
func pricing(models ...string) func(*auth.IssuerDeps) {
	return func(d *auth.IssuerDeps) {
		m := catalog().version(1)
		m.Priced = func(name string) bool { return slices.Contains(models, name) }
		d.Models = func() auth.Models { return m }
	}
}

func TestCreateWarns(t *testing.T) {
	for _, test := range []struct {
		change func(*auth.IssuerDeps)
		spec   auth.Spec
		want   []string
	}{
		{nil, auth.Spec{Models: []string{"b/*", "**"}}, nil},
		{nil, auth.Spec{Models: []string{"x/*"}}, []string{"x/* matches none of the 4 models that there are"}},
		{nil, auth.Spec{Models: []string{"*"}}, []string{"* matches 1 of 4 models: those without a slash in their name; ** matches every model"}},
		{nil, auth.Spec{Models: []string{"soon"}, AllowUnknownModels: true}, []string{`there is no model "soon"; it allows nothing until there is`}},
		{pricing("b/chat"), auth.Spec{Models: []string{"b/coder", "c/*"}, Budget: "1/day"}, []string{"none of the models that it may use has a price, so that nothing counts for its budget"}},
		{pricing("b/chat"), auth.Spec{Models: []string{"b/*"}, Budget: "1/day"}, nil},
		{pricing("b/chat"), auth.Spec{Models: []string{"hidden"}}, nil},
		{pricing(), auth.Spec{Models: []string{"x/*"}, Budget: "1/day"}, []string{"x/* matches none of the 4 models that there are"}},
		{func(d *auth.IssuerDeps) { d.Models, d.Bands = nil, nil }, auth.Spec{Models: []string{"soon"}, Band: "x"},
			[]string{`band "x" was not checked, since no configuration is at hand`, "the models were not checked, since no catalog is at hand"}},
	} {
		issued, err := newIssuer(t, newStore(), test.change).Create(t.Context(), test.spec, me)
		if err != nil || !slices.Equal(issued.Warnings, test.want) {
			t.Errorf("%q: %q, %v", test.spec.Models, issued.Warnings, err)
		}
	}
}

// What the largest key leaves in an audit row is within what stores take.
func TestLargestAuditRow(t *testing.T) {
	store := newStore()
	spec := auth.Spec{Name: strings.Repeat(`"`, 256), Owner: strings.Repeat(`\`, 256), AllowUnknownModels: true, Tags: map[string]string{}}
	for i := range 256 {
		spec.Models = append(spec.Models, fmt.Sprintf(`%s%03d`, strings.Repeat(`"`, 61), i))
	}
	for i := range 32 {
		spec.Tags[fmt.Sprintf("%s%02d", strings.Repeat(`<`, 126), i)] = strings.Repeat(`"`, 128)
	}
	if _, err := newIssuer(t, store, nil).Create(t.Context(), spec, me); err != nil {
		t.Fatal(err)
	}
	if n := len(store.audits[0].After); n > 64<<10 || !json.Valid(store.audits[0].After) {
		t.Errorf("%d bytes", n)
	}
}

// Who asks is told as he says, as far as it can be kept: it fails no change.
func TestAuditRowIsTidied(t *testing.T) {
	store := newStore()
	by := auth.By{Actor: "cli:\x1b[31mroot\n" + strings.Repeat("x", 300), RequestID: strings.Repeat("r", 300)}
	if _, err := newIssuer(t, store, nil).Create(t.Context(), auth.Spec{}, by); err != nil {
		t.Fatal(err)
	}
	row := store.audits[0]
	if err := row.Validate(); err != nil || len(row.RequestID) != 128 || !strings.HasPrefix(row.Actor, "cli:\uFFFD[31mroot\uFFFDx") {
		t.Errorf("%q, %q, %v", row.Actor, row.RequestID, err)
	}
}

func TestCreateFails(t *testing.T) {
	store := newStore()
	calls := 0
	store.fail = errDown
	store.before = func(string) { calls++ }
	s := newIssuer(t, store, nil)
	issued, err := s.Create(t.Context(), auth.Spec{}, me)
	if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "create key key_") || issued.Secret.Reveal() != "" || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	// Lost at the first call and there at the second is no failure.
	store.before = func(string) { store.set(func(s *memStore) { s.fail = nil }) }
	if _, err := s.Create(t.Context(), auth.Spec{}, me); err != nil {
		t.Error(err)
	}
	if _, err := auth.NewIssuer(auth.IssuerDeps{}); err == nil {
		t.Error("an issuer without a store")
	}
	s = newIssuer(t, newStore(), func(d *auth.IssuerDeps) { d.Random = strings.NewReader("short") })
	if _, err := s.Create(t.Context(), auth.Spec{}, me); err == nil {
		t.Error("a key of no randomness")
	}
}

type told struct{ revoked, forgotten []string }

func (d *told) Revoke(id string) { d.revoked = append(d.revoked, id) }
func (d *told) Forget(id string) { d.forgotten = append(d.forgotten, id) }

func TestRotate(t *testing.T) {
	now := start26.Truncate(time.Microsecond)
	made := now.Add(-80 * 24 * time.Hour)
	old := storage.Key{
		ID: "key_old", Name: "n", Owner: "o", Models: []string{"b/*"}, Band: "gold", Limits: storage.Limits{Concurrency: new(int64(3))},
		Budget: &storage.Budget{Nanos: 5, Period: storage.PeriodDay}, Tags: map[string]string{"a": "b"}, MayExplain: true, CreatedAt: made, ExpiresAt: made.Add(90 * 24 * time.Hour),
	}
	for _, test := range []struct {
		name           string
		how            auth.Rotation
		oldEnd, newEnd time.Time
		told           told
	}{
		{"overlap", auth.Rotation{Overlap: 24 * time.Hour}, now.Add(24 * time.Hour), now.Add(90 * 24 * time.Hour), told{forgotten: []string{"key_old"}}},
		{"it ends before", auth.Rotation{Overlap: 30 * 24 * time.Hour}, old.ExpiresAt, now.Add(90 * 24 * time.Hour), told{}},
		{"another life", auth.Rotation{Overlap: time.Hour, Expires: "7d"}, now.Add(time.Hour), now.Add(7 * 24 * time.Hour), told{forgotten: []string{"key_old"}}},
		{"at once", auth.Rotation{}, time.Time{}, now.Add(90 * 24 * time.Hour), told{revoked: []string{"key_old"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, heard := newStore(), &told{}
			store.add(t, old)
			issued, err := newIssuer(t, store, func(d *auth.IssuerDeps) { d.Told = heard }).Rotate(t.Context(), "key_old", test.how, me)
			if err != nil {
				t.Fatal(err)
			}
			k, before := issued.Key, store.keys["key_old"]
			if k.Replaces != "key_old" || k.ID == "key_old" || !k.ExpiresAt.Equal(test.newEnd) || !k.CreatedAt.Equal(now) || k.Name != "n" || k.Owner != "o" ||
				k.Band != "gold" || *k.Limits.Concurrency != 3 || k.Budget.Nanos != 5 || k.Tags["a"] != "b" || k.Hash != issued.Secret.Hash() || k.Revision != 1 ||
				k.Lineage != "key_old" || !k.MayExplain {
				t.Errorf("the new key is %+v", k)
			}
			if test.oldEnd.IsZero() {
				if !before.RevokedAt.Equal(now) {
					t.Errorf("the old key was revoked at %v", before.RevokedAt)
				}
			} else if !before.ExpiresAt.Equal(test.oldEnd) || !before.RevokedAt.IsZero() {
				t.Errorf("the old key ends at %v, want %v", before.ExpiresAt, test.oldEnd)
			}
			if !slices.Equal(heard.revoked, test.told.revoked) || !slices.Equal(heard.forgotten, test.told.forgotten) {
				t.Errorf("told %v, want %v", *heard, test.told)
			}
			if n := len(store.audits); n != 1+len(heard.revoked)+len(heard.forgotten) {
				t.Errorf("%d audit rows", n)
			}
			for _, row := range store.audits[1:] {
				if row.Before == nil || row.After == nil || row.Target != "key_old" {
					t.Errorf("audit row %+v", row)
				}
			}
		})
	}
}

// However often a key is rotated, what is counted goes on under the first one's ID.
func TestRotateKeepsTheLineage(t *testing.T) {
	store := newStore()
	s := newIssuer(t, store, nil)
	first, err := s.Create(t.Context(), auth.Spec{}, me)
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for range 3 {
		if last, err = s.Rotate(t.Context(), last.Key.ID, auth.Rotation{}, me); err != nil {
			t.Fatal(err)
		}
		if id := auth.NewIdentity(last.Key); id.Lineage() != first.Key.ID || id.KeyID() == first.Key.ID {
			t.Fatalf("key %s is of lineage %s; want %s", id.KeyID(), id.Lineage(), first.Key.ID)
		}
	}
	if first.Key.Lineage != first.Key.ID || auth.NewIdentity(storage.Key{ID: "k"}).Lineage() != "k" {
		t.Error("a key that follows none is not its own lineage")
	}
	if after := string(store.audits[len(store.audits)-2].After); !strings.Contains(after, `"lineage":"`+first.Key.ID+`"`) {
		t.Errorf("audited as %s", after)
	}
}

func TestRotateRefuses(t *testing.T) {
	store := newStore()
	store.add(t, storage.Key{ID: "expired", ExpiresAt: start26.Add(-time.Second)})
	store.add(t, storage.Key{ID: "revoked", RevokedAt: start26})
	store.add(t, storage.Key{ID: "good"})
	s := newIssuer(t, store, nil)
	for _, test := range []struct {
		id   string
		how  auth.Rotation
		want error
	}{
		{"gone", auth.Rotation{}, storage.ErrNotFound},
		{"expired", auth.Rotation{}, auth.ErrNotUsable},
		{"revoked", auth.Rotation{}, auth.ErrNotUsable},
		{"good", auth.Rotation{Overlap: -1}, auth.ErrInvalid},
		{"good", auth.Rotation{Overlap: 1 << 62}, auth.ErrInvalid},
		{"good", auth.Rotation{Expires: "soon"}, auth.ErrInvalid},
	} {
		if _, err := s.Rotate(t.Context(), test.id, test.how, me); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.id, err, test.want)
		}
	}
	if len(store.keys) != 3 || len(store.audits) != 0 {
		t.Error("something was kept")
	}
}

// A key that was given an end by a rotation says nothing of how long it was meant
// to live: another key is not to end with the overlap.
func TestRotateTwice(t *testing.T) {
	for _, spec := range []auth.Spec{{}, {Expires: "90d"}} {
		store := newStore()
		s := newIssuer(t, store, nil)
		first, err := s.Create(t.Context(), spec, me)
		if err != nil {
			t.Fatal(err)
		}
		id := first.Key.ID
		if _, err := s.Rotate(t.Context(), id, auth.Rotation{Overlap: time.Hour}, me); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Rotate(t.Context(), id, auth.Rotation{Overlap: time.Hour}, me); !errors.Is(err, auth.ErrInvalid) || len(store.keys) != 2 {
			t.Errorf("%v, %d keys; want it refused", err, len(store.keys))
		}
		for expires, end := range map[string]time.Time{"never": {}, "30d": start26.Truncate(time.Microsecond).Add(30 * 24 * time.Hour)} {
			again, err := s.Rotate(t.Context(), id, auth.Rotation{Overlap: time.Hour, Expires: expires}, me)
			if err != nil || !again.Key.ExpiresAt.Equal(end) {
				t.Errorf("%v; the new key ends at %v, want %v", err, again.Key.ExpiresAt, end)
			}
		}
	}
}

// The old key was changed by somebody else between reading and writing: what
// they changed stays. And if it cannot be ended, the new key is not lost.
func TestRotateMeetsOthers(t *testing.T) {
	store := newStore()
	store.add(t, storage.Key{ID: "key_old", Name: "a"})
	store.before = func(op string) {
		if op == "update" {
			store.before = nil
			store.change("key_old", func(k *storage.Key) { k.Name = "b" })
		}
	}
	s := newIssuer(t, store, nil)
	if _, err := s.Rotate(t.Context(), "key_old", auth.Rotation{Overlap: time.Hour}, me); err != nil {
		t.Fatal(err)
	}
	if k := store.keys["key_old"]; k.Name != "b" || k.ExpiresAt.IsZero() {
		t.Errorf("the old key is %+v", k)
	}
	store.add(t, storage.Key{ID: "key_2"})
	store.before = func(op string) {
		if op == "update" {
			store.set(func(s *memStore) { s.fail = errDown })
		}
	}
	issued, err := s.Rotate(t.Context(), "key_2", auth.Rotation{Overlap: time.Hour}, me)
	if !errors.Is(err, auth.ErrHalfRotated) || !errors.Is(err, storage.ErrUnavailable) || issued.Secret.Reveal() == "" || store.keys[issued.Key.ID].ID == "" {
		t.Errorf("%v, %+v", err, auth.Info(issued.Key))
	}
}

func TestRevoke(t *testing.T) {
	store, heard := newStore(), &told{}
	store.add(t, storage.Key{ID: "key_1"})
	s := newIssuer(t, store, func(d *auth.IssuerDeps) { d.Told = heard })
	for range 2 { // the second changes nothing
		k, err := s.Revoke(t.Context(), "key_1", me)
		if err != nil || !k.RevokedAt.Equal(start26.Truncate(time.Microsecond)) || len(store.audits) != 1 {
			t.Errorf("%v, %+v, %d audit rows", err, k, len(store.audits))
		}
	}
	row := store.audits[0]
	if row.Action != "key.revoke" || strings.Contains(string(row.Before), "revoked_at") || !strings.Contains(string(row.After), "revoked_at") {
		t.Errorf("audit row %s %s", row.Before, row.After)
	}
	if _, err := s.Revoke(t.Context(), "gone", me); !errors.Is(err, storage.ErrNotFound) || len(heard.revoked) != 2 {
		t.Errorf("%v; told %v", err, heard.revoked)
	}
	store.fail = errDown
	if _, err := s.Revoke(t.Context(), "key_2", me); !errors.Is(err, storage.ErrUnavailable) || !slices.Contains(heard.revoked, "key_2") {
		t.Errorf("%v; while the store is away this process is to refuse it: %v", err, heard.revoked)
	}
}

func TestDecodeSpec(t *testing.T) {
	spec, err := auth.DecodeSpec(strings.NewReader(`{"name":"a","models":["b/*"],"requests_per_minute":5,"budget":"1/day","expires":"1h","tags":{"x":"y"}} `))
	if err != nil || spec.Name != "a" || *spec.RequestsPerMinute != 5 || spec.Models[0] != "b/*" || spec.Budget != "1/day" {
		t.Errorf("%+v, %v", spec, err)
	}
	key := canary(t).Reveal()
	for _, text := range []string{
		``, `{`, `[]`, `null x`, `{"rpm":5}`, `{"name":1}`, `{"name":"a"} {}`, `{"name":"a"}x`, `{"requests_per_minute":1.5}`, `{"requests_per_minute":1e30}`,
		`{"` + key + `":1}`, `{"` + strings.Repeat("x", 1<<16) + `":1}`, `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, `{"key":"x"}`, `{"band":["` + key + `"]}`,
	} {
		if _, err := auth.DecodeSpec(strings.NewReader(text)); !errors.Is(err, auth.ErrInvalid) || len(err.Error()) > 400 || spilled(t, err.Error()) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}
