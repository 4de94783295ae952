package storagetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

func simpleProvider(n int) storage.Provider {
	at := epoch.Add(time.Duration(n) * time.Minute)
	return storage.Provider{
		ID: fmt.Sprintf("prov_%03d", n), Name: fmt.Sprintf("gpu%02d", n), BaseURL: fmt.Sprintf("http://10.0.0.%d:8000", n), Kind: storage.ProviderDynamic,
		CreatedAt: at, ChangedAt: at,
	}
}

func fullProvider() storage.Provider {
	return storage.Provider{
		ID: "prov_full", Name: "näme 'quoted\"", BaseURL: "https://api.example.com/v1;--", Kind: storage.ProviderCloud, Vendor: "openrouter",
		Node: "gpu07", Engine: "vLLM <&>", Principal: "acct-1", Credential: []byte{0, 1, 255}, CredentialKey: "k1",
		DegradedAt: epoch.Add(123456789), DegradedReason: "it did not answer",
		Models: []storage.ProviderModel{
			{Name: "a/b <&>", OwnedBy: "ä", ContextTokens: new(int64(131072)), FirstSeen: epoch.Add(time.Second), GoneAt: epoch.Add(time.Minute)},
			{Name: "c", FirstSeen: epoch},
		},
		CreatedAt: epoch.Add(123456789), ChangedAt: epoch.Add(time.Hour),
	}
}

func fillProviders(t testing.TB, s storage.Store) {
	t.Helper()
	ctx := t.Context()
	term, err := s.Term(ctx)
	ok(t, err)
	f := term.Fence()
	ok(t, s.CreateProvider(ctx, f, fullProvider(), because("provider-1")))
	ok(t, s.CreateProvider(ctx, f, simpleProvider(1), because("provider-2")))
	changed := simpleProvider(1)
	changed.Kind, changed.Revision = storage.ProviderStatic, 1
	ok(t, s.UpdateProvider(ctx, f, changed, because("provider-3")))
}

func providersOf(t reporter, s storage.Store, q storage.ProviderQuery) []storage.Provider {
	return everything(t, 2, func(p storage.Page) ([]storage.Provider, string, error) {
		q.Page = p
		return s.ListProviders(context.Background(), q)
	})
}

func testProviders(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	f := lead(t, s)
	_, err := s.Provider(ctx, "prov_full")
	wantErr(t, "none", err, storage.ErrNotFound)
	for range 2 { // once more, as after an answer that was lost
		ok(t, s.CreateProvider(ctx, f, fullProvider(), because("a1")))
	}
	want := fullProvider()
	want.DegradedAt, want.CreatedAt, want.Revision = epoch.Add(123456*time.Microsecond), epoch.Add(123456*time.Microsecond), 1
	for what, get := range map[string]func() (storage.Provider, error){
		"by ID":      func() (storage.Provider, error) { return other.Provider(ctx, want.ID) },
		"by name":    func() (storage.Provider, error) { return other.ProviderByName(ctx, want.Name) },
		"by address": func() (storage.Provider, error) { return other.ProviderByBaseURL(ctx, want.BaseURL) },
	} {
		got, err := get()
		ok(t, err)
		equal(t, what, got, want)
	}

	changed := simpleProvider(1)
	changed.ID, changed.Revision = want.ID, 1
	for range 2 {
		ok(t, other.UpdateProvider(ctx, f, changed, because("b1")))
	}
	kept := changed
	kept.BaseURL, kept.Models, kept.CreatedAt, kept.Revision = want.BaseURL, want.Models, want.CreatedAt, 2
	got, err := s.Provider(ctx, want.ID)
	ok(t, err)
	equal(t, "changed: its credential and its degradation are gone", got, kept)

	wantErr(t, "a change of what was changed", s.UpdateProvider(ctx, f, changed, because("b2")), storage.ErrConflict)
	wantErr(t, "an end of what was changed", s.DeleteProvider(ctx, f, want.ID, 1, because("c1")), storage.ErrConflict)
	for range 2 {
		ok(t, s.DeleteProvider(ctx, f, want.ID, 2, because("c2")))
	}
	wantErr(t, "an end of nothing", s.DeleteProvider(ctx, f, want.ID, 2, because("c3")), storage.ErrNotFound)
	wantErr(t, "a change of nothing", s.UpdateProvider(ctx, f, changed, because("c4")), storage.ErrNotFound)
	ok(t, s.CreateProvider(ctx, f, fullProvider(), because("d1")))
	equal(t, "audit rows", len(auditOf(t, s)), 4)
	sound(t, s)
}

// What is seen leaves what people set, and the revision, as they are.
func testProvidersSeen(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	f := lead(t, s)
	ok(t, s.CreateProvider(ctx, f, simpleProvider(1), because("a1")))
	ok(t, s.CreateProvider(ctx, f, simpleProvider(2), because("a2")))
	full := fullProvider()
	ok(t, s.SeeProviders(ctx, f, []storage.ProviderSeen{
		{ID: "prov_002"}, {ID: "prov_gone"}, {ID: "prov_001", DegradedAt: epoch, DegradedReason: "refused", Models: full.Models},
	}))
	want, second := simpleProvider(1), simpleProvider(2)
	want.DegradedAt, want.DegradedReason, want.Models, want.Revision = epoch, "refused", full.Models, 1
	second.Revision = 1
	equal(t, "seen", providersOf(t, s, storage.ProviderQuery{}), []storage.Provider{want, second})

	renamed := simpleProvider(1)
	renamed.Name, renamed.Revision = "other", 1
	ok(t, s.UpdateProvider(ctx, f, renamed, because("b1")))
	got, err := s.Provider(ctx, "prov_001")
	ok(t, err)
	equal(t, "a change by somebody who saw no models keeps them", got.Models, full.Models)

	ok(t, s.SeeProviders(ctx, f, []storage.ProviderSeen{{ID: "prov_001"}}))
	got, err = s.Provider(ctx, "prov_001")
	ok(t, err)
	renamed.Revision = 2
	equal(t, "well again, and nothing served", got, renamed)
	equal(t, "audit rows", len(auditOf(t, s)), 3)
}

// What cannot be done leaves everything as it was.
func testProvidersRefused(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	old := lead(t, s)
	f := lead(t, s)
	fillProviders(t, s)
	before, audits := providersOf(t, s, storage.ProviderQuery{}), auditOf(t, s)
	for name, change := range map[string]func(p *storage.Provider){
		"no ID": func(p *storage.Provider) { p.ID = "" }, "no name": func(p *storage.Provider) { p.Name = "" }, "NUL": func(p *storage.Provider) { p.Engine = "a\x00" },
		"no address": func(p *storage.Provider) { p.BaseURL = "" }, "no kind": func(p *storage.Provider) { p.Kind = 0 },
		"a kind of nobody":             func(p *storage.Provider) { p.Kind = 9 },
		"a credential without key":     func(p *storage.Provider) { p.Credential = []byte{1} },
		"a key without credential":     func(p *storage.Provider) { p.CredentialKey = "k" },
		"an empty credential":          func(p *storage.Provider) { p.Credential, p.CredentialKey = []byte{}, "k" },
		"a long credential":            func(p *storage.Provider) { p.Credential, p.CredentialKey = make([]byte, 16<<10+1), "k" },
		"a reason while it is well":    func(p *storage.Provider) { p.DegradedReason = "x" },
		"a degradation without reason": func(p *storage.Provider) { p.DegradedAt = epoch },
		"no time":                      func(p *storage.Provider) { p.ChangedAt = time.Time{} },
		"models in another order": func(p *storage.Provider) {
			p.Models = []storage.ProviderModel{{Name: "b", FirstSeen: epoch}, {Name: "a", FirstSeen: epoch}}
		},
		"a model twice": func(p *storage.Provider) {
			p.Models = []storage.ProviderModel{{Name: "b", FirstSeen: epoch}, {Name: "b", FirstSeen: epoch}}
		},
		"a model without time": func(p *storage.Provider) { p.Models = []storage.ProviderModel{{Name: "b"}} },
		"a long name of a model": func(p *storage.Provider) {
			p.Models = []storage.ProviderModel{{Name: strings.Repeat("x", 257), FirstSeen: epoch}}
		},
		"too many models": func(p *storage.Provider) { p.Models = make([]storage.ProviderModel, 4097) },
	} {
		p := simpleProvider(7)
		change(&p)
		wantErr(t, "a provider with "+name, s.CreateProvider(ctx, f, p, because("x")), storage.ErrInvalid)
		if p.ID != "" && p.DegradedReason+p.CredentialKey == "" && p.Models != nil {
			wantErr(t, "one seen with "+name, s.SeeProviders(ctx, f, []storage.ProviderSeen{{ID: p.ID, Models: p.Models}}), storage.ErrInvalid)
		}
	}
	wantErr(t, "a provider without why", s.CreateProvider(ctx, f, simpleProvider(7), storage.Audit{}), storage.ErrInvalid)
	wantErr(t, "an end without why", s.DeleteProvider(ctx, f, "prov_001", 2, storage.Audit{}), storage.ErrInvalid)
	for what, taken := range map[string]func(p *storage.Provider){
		"an ID": func(p *storage.Provider) { p.ID = "prov_full" }, "a name": func(p *storage.Provider) { p.Name = "gpu01" },
		"an address": func(p *storage.Provider) { p.BaseURL = "http://10.0.0.1:8000" },
	} {
		p := simpleProvider(7)
		taken(&p)
		wantErr(t, what+" that is taken", s.CreateProvider(ctx, f, p, because("x")), storage.ErrExists)
	}
	renamed := simpleProvider(1)
	renamed.Name, renamed.Revision = fullProvider().Name, 2
	wantErr(t, "a name of another", s.UpdateProvider(ctx, f, renamed, because("x")), storage.ErrExists)
	for what, err := range map[string]error{
		"create": s.CreateProvider(ctx, old, simpleProvider(7), because("x")), "update": s.UpdateProvider(ctx, old, renamed, because("x")),
		"see": s.SeeProviders(ctx, old, []storage.ProviderSeen{{ID: "prov_001"}}), "delete": s.DeleteProvider(ctx, old, "prov_001", 2, because("x")),
	} {
		wantErr(t, what+" by who leads no longer", err, storage.ErrFenced)
	}
	for _, get := range []func(context.Context, string) (storage.Provider, error){s.Provider, s.ProviderByName, s.ProviderByBaseURL} {
		_, err := get(ctx, "a\x00b")
		wantErr(t, "one that no store keeps", err, storage.ErrNotFound)
	}
	equal(t, "providers after refusals", providersOf(t, s, storage.ProviderQuery{}), before)
	equal(t, "audit rows after refusals", auditOf(t, s), audits)
	sound(t, s)
}

func testProviderList(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	f := lead(t, s)
	var names []string
	for n := range 7 {
		p := simpleProvider(6 - n)
		p.Kind = storage.ProviderKind(1 + (6-n)%3)
		ok(t, s.CreateProvider(ctx, f, p, because(p.ID)))
		names = append(names, fmt.Sprintf("gpu%02d", n))
	}
	var all, static []string
	for _, p := range providersOf(t, s, storage.ProviderQuery{}) {
		all = append(all, p.Name)
	}
	for _, p := range providersOf(t, s, storage.ProviderQuery{Kind: storage.ProviderStatic}) {
		static = append(static, p.Name)
	}
	equal(t, "by name", all, names)
	equal(t, "of one kind", static, []string{"gpu01", "gpu04"})
}

// Whatever order changes come in, no two providers share a name or an address, each
// change is made on the revision that it names, and once.
func testProvidersModel(t *testing.T, open Open) {
	s, id := open(t), 0
	f := lead(t, s)
	check(t, 10, func(t *rapid.T) {
		ctx := context.Background()
		for _, p := range providersOf(t, s, storage.ProviderQuery{}) {
			id++
			ok(t, s.DeleteProvider(ctx, f, p.ID, p.Revision, because(fmt.Sprint("clear ", id))))
		}
		there := map[string]storage.Provider{}
		holds := func(except string, held func(storage.Provider) bool) bool {
			for _, p := range there {
				if p.ID != except && held(p) {
					return true
				}
			}
			return false
		}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			id++
			p := simpleProvider(rapid.IntRange(1, 3).Draw(t, "provider"))
			p.Name = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			p.Revision = rapid.Int64Range(1, 3).Draw(t, "revision")
			kept, is := there[p.ID]
			what := rapid.SampledFrom([]string{"create", "update", "delete", "see"}).Draw(t, "what")
			taken := holds(p.ID, func(o storage.Provider) bool { return o.Name == p.Name })
			var err error
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				switch what {
				case "create":
					err = s.CreateProvider(ctx, f, p, because(fmt.Sprint(id)))
				case "update":
					err = s.UpdateProvider(ctx, f, p, because(fmt.Sprint(id)))
				case "delete":
					err = s.DeleteProvider(ctx, f, p.ID, p.Revision, because(fmt.Sprint(id)))
				case "see":
					err = s.SeeProviders(ctx, f, []storage.ProviderSeen{{ID: p.ID}})
				}
			}
			switch {
			case what == "see":
				ok(t, err)
			case what == "create" && (is || taken):
				wantErr(t, "one that is taken", err, storage.ErrExists)
			case what == "create":
				ok(t, err)
				p.Revision = 1
				there[p.ID] = p
			case !is:
				wantErr(t, "one that is not there", err, storage.ErrNotFound)
			case kept.Revision != p.Revision:
				wantErr(t, "another revision", err, storage.ErrConflict)
			case what == "delete":
				ok(t, err)
				delete(there, p.ID)
			case taken:
				wantErr(t, "a name of another", err, storage.ErrExists)
			default:
				ok(t, err)
				p.Revision++
				there[p.ID] = p
			}
			now := map[string]storage.Provider{}
			for _, p := range providersOf(t, s, storage.ProviderQuery{}) {
				now[p.ID] = p
			}
			equal(t, "providers", now, there)
		}
	})
}
