package models_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/storage"
)

// store keeps models in memory as a store does, and fails while err is set.
type store struct {
	mu     sync.Mutex
	models []storage.Model
	audits []storage.Audit
	err    error
}

func (s *store) PutModels(_ context.Context, changes []storage.ModelChange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	for _, c := range changes {
		if err := errors.Join(c.Model.Validate(), c.Why.Validate()); err != nil {
			return err
		}
		i := slices.IndexFunc(s.models, func(m storage.Model) bool { return m.Name == c.Model.Name })
		c.Model.Revision++
		switch {
		case i < 0 && c.Model.Revision == 1:
			s.models = append(s.models, c.Model)
		case i >= 0 && s.models[i].Revision+1 == c.Model.Revision:
			s.models[i] = c.Model
		default:
			return storage.ErrConflict
		}
		s.audits = append(s.audits, c.Why)
	}
	return nil
}

func (s *store) RemoveModel(_ context.Context, name string, revision int64, why storage.Audit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	i := slices.IndexFunc(s.models, func(m storage.Model) bool { return m.Name == name && m.Revision == revision })
	if i < 0 {
		return storage.ErrConflict
	}
	s.models, s.audits = slices.Delete(s.models, i, i+1), append(s.audits, why)
	return nil
}

func (s *store) ListModels(context.Context) ([]storage.Model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.models), s.err
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// bench is Models with what they were put into force as.
type bench struct {
	*models.Models
	t       *testing.T
	store   *store
	applied []string // names, as of the last Apply
	refuse  error    // what Apply returns
}

func newBench(t *testing.T, s *store, configured []catalog.Model, change func(d *models.Deps)) *bench {
	t.Helper()
	b := &bench{t: t, store: s}
	deps := models.Deps{ControlPlane: true, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }, Apply: func(list []catalog.Model) error {
		if b.refuse != nil {
			return b.refuse
		}
		b.applied = nil
		for _, m := range list {
			b.applied = append(b.applied, m.Name)
		}
		return nil
	}}
	if s != nil {
		deps.Store = s
	}
	if change != nil {
		change(&deps)
	}
	var err error
	if b.Models, err = models.New(configured, deps); err != nil {
		t.Fatal(err)
	}
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) add(definition string) error {
	b.t.Helper()
	_, err := b.AddModel(b.t.Context(), &apipb.AddModelRequest{Definition: definition, File: "m.yaml", Actor: "cli:ada@host"})
	return err
}

func (b *bench) replace(definition string) error {
	b.t.Helper()
	_, err := b.AddModel(b.t.Context(), &apipb.AddModelRequest{Definition: definition, Replace: true})
	return err
}

func (b *bench) remove(name string) error {
	b.t.Helper()
	_, err := b.RemoveModel(b.t.Context(), &apipb.RemoveModelRequest{Name: name})
	return err
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// refused wants an error of that class with that text in it, and nothing changed.
func (b *bench) refused(what string, err, class error, text string) {
	b.t.Helper()
	if !errors.Is(err, class) || !strings.Contains(err.Error(), text) {
		b.t.Errorf("%s: %v; want %v with %q", what, err, class, text)
	}
}

// lines are the listed models with what is said of them.
func (b *bench) lines() (out []string) {
	b.t.Helper()
	list, err := b.ListModels(b.t.Context(), &apipb.ListModelsRequest{})
	b.ok(err)
	for _, m := range list.GetModels() {
		line := m.GetName() + " " + strings.ToLower(strings.TrimPrefix(m.GetOrigin().String(), "MODEL_ORIGIN_"))
		if m.GetActor() != "" {
			line += fmt.Sprintf(" %s %d", m.GetActor(), m.GetRevision())
		}
		if len(m.GetSetAside()) > 0 {
			line += ": " + strings.Join(m.GetSetAside(), "; ")
		}
		out = append(out, line)
	}
	return out
}

func (b *bench) want(what string, got, want []string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAddChangeRemove(t *testing.T) {
	s := &store{}
	b := newBench(t, s, []catalog.Model{{Name: "a"}}, nil)
	before := b.Current()
	b.ok(b.add("name: b\nfallbacks: [a]\naliases: [bee]\n"))
	select {
	case <-before.Changed():
	default:
		t.Error("nobody was told of the change")
	}
	if now := b.Current(); now.Version <= before.Version || now.Catalog.Len() != 2 || before.Catalog.Len() != 1 {
		t.Errorf("version %d with %d models after %d with %d", now.Version, now.Catalog.Len(), before.Version, before.Catalog.Len())
	}
	b.want("in force", b.applied, []string{"a", "b"})
	b.want("listed", b.lines(), []string{"a configuration", "b store cli:ada@host 1"})

	version := b.Current().Version
	b.ok(b.add("# the same\n{name: b, fallbacks: [a], aliases: [bee]}"))
	if b.Current().Version != version || len(s.audits) != 1 {
		t.Error("the same definition was added twice")
	}
	b.refused("another definition", b.add("name: b\n"), api.ErrInvalid, `m.yaml:1: name: "b" was added by cli:ada@host already, with another definition; say replace (--replace) to change it`)
	b.ok(b.replace("name: b\ncontext_tokens: 5\n"))
	if m, _ := b.Current().Catalog.Resolve("b"); m.ContextTokens != 5 {
		t.Errorf("changed to %+v", m)
	}
	got, err := b.GetModel(t.Context(), &apipb.GetModelRequest{Name: "b"})
	b.ok(err)
	if got.GetDefinition() != "name: b\ncontext_tokens: 5\n" || got.GetModel().GetRevision() != 2 || got.GetModel().GetActor() != "api" {
		t.Errorf("got %v", got)
	}

	// As after a restart.
	again := newBench(t, s, []catalog.Model{{Name: "a"}}, nil)
	again.want("in force after a restart", again.applied, []string{"a", "b"})
	again.ok(again.remove("b"))
	again.want("in force without it", again.applied, []string{"a"})
	_, err = again.GetModel(t.Context(), &apipb.GetModelRequest{Name: "b"})
	again.refused("a model that is gone", err, api.ErrNotFound, `there is no model "b"`)

	var actions []string
	for _, a := range s.audits {
		actions = append(actions, fmt.Sprintf("%s %s by %s: %s > %s", a.Action, a.Target, a.Actor, a.Before, a.After))
	}
	b.want("audit rows", actions, []string{
		`model.add b by cli:ada@host:  > {"definition":"name: b\naliases: [bee]\nfallbacks: [a]\n"}`,
		`model.change b by api: {"definition":"name: b\naliases: [bee]\nfallbacks: [a]\n"} > {"definition":"name: b\ncontext_tokens: 5\n"}`,
		`model.remove b by api: {"definition":"name: b\ncontext_tokens: 5\n"} > `,
	})
}

func TestSeveralAtOnce(t *testing.T) {
	b := newBench(t, &store{}, nil, nil)
	b.refused("one of two", b.add("models:\n  - name: a\n    fallbacks: [b]\n  - name: b\n    fallbacks:\n      - c\n"), api.ErrInvalid,
		`m.yaml:6: models[1].fallbacks[0]: "c" is no model or alias of the catalog; name one that is, or add it first`)
	b.want("in force", b.applied, nil)
	b.ok(b.add("models:\n  - {name: a, fallbacks: [b]}\n  - {name: b, fallbacks: [a]}\n"))
	b.want("in force", b.applied, []string{"a", "b"})
	b.refused("the other's fallback", b.remove("b"), api.ErrPrecondition, `other models need "b"; change or remove them first: "a": fallbacks[0]: "b" is no model`)
	b.ok(b.replace("name: a\n"))
	b.ok(b.remove("b"))
}

func TestRefused(t *testing.T) {
	s := &store{}
	check := func(m *catalog.Model) error {
		if m.RoutingProfile == "fastest" {
			return errors.New("routing_profile: \"fastest\" is none\ncontext_tokens: is another fault")
		}
		return nil
	}
	fits := func(_ context.Context, m *catalog.Model) ([]string, error) {
		if m.Profile.TensorParallel > 8 {
			return nil, errors.New("profile.tensor_parallel: no node has so many cards")
		}
		return []string{m.Name + ": no node is known yet"}, nil
	}
	b := newBench(t, s, []catalog.Model{{Name: "a", Aliases: []string{"x"}}}, func(d *models.Deps) { d.Check, d.Fits = check, fits })
	b.ok(b.add("name: kept\naliases: [k]\nfallbacks: [a]\n"))
	b.ok(b.add("name: user\nfallbacks: [k]\n"))
	for _, tt := range []struct{ name, definition, want string }{
		{"no YAML", "a: b: c", "m.yaml:1: is not YAML"},
		{"a slip", "name: b\naliase: [c]\n", "m.yaml:2: aliase: unknown key; did you mean aliases?"},
		{"no source", "name: b\nprofile:\n  engine: vllm\n", "m.yaml: source: is missing"},
		{"the configuration names it", "# x\nname: a\n", `m.yaml:2: name: "a" belongs to model "a" of the configuration, which wins`},
		{"an alias of the configuration's", "name: x\n", `m.yaml:1: name: "x" belongs to model "a" of the configuration`},
		{"an alias that is taken", "name: b\naliases: [c, k]\n", `m.yaml:2: aliases[1]: "k" belongs to model "kept", which was added before`},
		{"no such fallback", "name: b\nfallbacks: [gone]\n", `m.yaml:2: fallbacks[0]: "gone" is no model`},
		{"what the router knows", "name: b\nrouting_profile: fastest\n", "m.yaml: context_tokens: is another fault\nm.yaml:2: routing_profile: \"fastest\" is none"},
		{"no node could hold it", "name: b\nsource: m\nprofile:\n  engine: sim\n  tensor_parallel: 16\n", "m.yaml:5: profile.tensor_parallel: no node has so many cards"},
	} {
		version := b.Current().Version
		b.refused(tt.name, b.add(tt.definition), api.ErrInvalid, tt.want)
		if b.Current().Version != version || len(s.models) != 2 {
			t.Errorf("%s: something changed", tt.name)
		}
	}
	b.refused("a change that others need", b.replace("name: kept\n"), api.ErrInvalid, `other models could not stand in the catalog any more: "user": fallbacks[0]: "k" is no model`)
	b.refused("an end of the configuration's", b.remove("a"), api.ErrPrecondition, `model "a" is of the server's configuration; remove it there and send SIGHUP`)
	b.refused("an end by an alias", b.remove("k"), api.ErrNotFound, `"k" is an alias of the model "kept"`)
	b.refused("an end of nothing", b.remove("gone"), api.ErrNotFound, `there is no model "gone"`)

	resp, err := b.AddModel(t.Context(), &apipb.AddModelRequest{Definition: "name: b\nsource: m\nprofile: {engine: sim}\nscaling: {max: 2}\n"})
	b.ok(err)
	b.want("warnings", resp.GetWarnings(), []string{"b: no node is known yet"})
	if m := resp.GetModels()[0]; m.GetEngine() != "sim" || m.MinReplicas == nil || m.GetMaxReplicas() != 2 {
		t.Errorf("added %v", m)
	}
}

// The longest definition is kept with its audit row, however it is escaped there.
func TestLongestDefinition(t *testing.T) {
	b := newBench(t, &store{}, nil, nil)
	text := "name: a\nsource: m\nprofile:\n  engine: sim\n  extra_args: ['" + strings.Repeat(`"`, catalog.MaxDefinitionBytes-60) + "']\n"
	b.ok(b.add(text))
	b.ok(b.replace(strings.Replace(text, `""`, `\\`, 1)))
}

func TestNowhereToAdd(t *testing.T) {
	b := newBench(t, nil, []catalog.Model{{Name: "a"}}, nil)
	b.refused("an addition", b.add("name: b\n"), api.ErrPrecondition, "this server has no store to keep models in")
	b.refused("an end", b.remove("a"), api.ErrPrecondition, "this server has no store to keep models in")
	b.want("listed", b.lines(), []string{"a configuration"})

	router := newBench(t, &store{}, nil, func(d *models.Deps) { d.ControlPlane = false })
	router.refused("a model to run", router.add("name: b\nsource: m\nprofile: {engine: sim}\n"), api.ErrPrecondition, "write agent_listen in its configuration")
	router.ok(router.add("name: b\nsource: m\n"))
}

func TestStoreAway(t *testing.T) {
	s := &store{}
	b := newBench(t, s, nil, nil)
	b.ok(b.add("name: a\n"))
	s.fail(fmt.Errorf("%w: it is not there", storage.ErrUnavailable))
	b.refused("an addition", b.add("name: b\n"), api.ErrUnavailable, "the store does not answer, and nothing was changed")
	b.refused("an end", b.remove("a"), api.ErrUnavailable, "the store does not answer")
	b.want("in force", b.applied, []string{"a"})
	list, err := b.ListModels(t.Context(), &apipb.ListModelsRequest{})
	b.ok(err)
	if !strings.Contains(list.GetStoredUnknown(), "as they were read last") {
		t.Errorf("said %q", list.GetStoredUnknown())
	}
	s.fail(errors.New("something that no store should say"))
	b.refused("an addition", b.add("name: b\n"), api.ErrUnavailable, "")
	s.fail(nil)
	b.ok(b.add("name: b\n"))
	if list, _ := b.ListModels(t.Context(), &apipb.ListModelsRequest{}); list.GetStoredUnknown() != "" {
		t.Errorf("said %q", list.GetStoredUnknown())
	}

	unread, err := models.New(nil, models.Deps{Store: s})
	b.ok(err)
	if list, _ := unread.ListModels(t.Context(), &apipb.ListModelsRequest{}); !strings.Contains(list.GetStoredUnknown(), "was not read yet") {
		t.Errorf("said %q", list.GetStoredUnknown())
	}
}

// What can no longer stand beside the configuration is set aside, shown and counted,
// and comes back when it can.
func TestSetAside(t *testing.T) {
	s := &store{}
	at := time.Unix(1, 0).UTC()
	for i, text := range []string{"name: b\n", "name: c\naliases: [x]\n", "name: d\nfallbacks: [b]\n", "name: e\nof_a_newer_program: 1\n", "name: other\n", "name: g\nrouting_profile: gone\n"} {
		s.models = append(s.models, storage.Model{Name: string(rune('b' + i)), Definition: text, Actor: "ada", CreatedAt: at, ChangedAt: at, Revision: 1})
	}
	reg := prometheus.NewRegistry()
	b := newBench(t, s, []catalog.Model{{Name: "b"}, {Name: "x"}}, func(d *models.Deps) {
		d.Registerer = reg
		d.Check = func(m *catalog.Model) error {
			if m.RoutingProfile != "" {
				return errors.New("routing_profile: is gone")
			}
			return nil
		}
	})
	b.want("in force", b.applied, []string{"b", "x", "d"})
	b.want("listed", b.lines(), []string{
		"b configuration",
		`b store ada 1: name: "b" belongs to model "b" of the configuration, which wins; remove one of them, or give this one another name`,
		`c store ada 1: aliases[0]: "x" belongs to model "x" of the configuration, which wins; remove one of them, or give this one another name`,
		"d store ada 1",
		"e store ada 1: of_a_newer_program: unknown key; known here are name, aliases, fallbacks, routing_profile, prices, max_output_tokens, context_tokens, source, profile, scaling, placement",
		"f store ada 1: name: the definition is of another model",
		"g store ada 1: routing_profile: is gone",
		"x configuration",
	})
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP llmgw_models_catalog_entries Models of the catalog, by where their entry is: in the configuration, or in the store.
# TYPE llmgw_models_catalog_entries gauge
llmgw_models_catalog_entries{origin="configuration"} 2
llmgw_models_catalog_entries{origin="store"} 1
# HELP llmgw_models_set_aside_entries Models in the store that are not in the catalog, since they cannot stand beside the others or are not accepted.
# TYPE llmgw_models_set_aside_entries gauge
llmgw_models_set_aside_entries 5
`)); err != nil {
		t.Error(err)
	}
	show, err := b.GetModel(t.Context(), &apipb.GetModelRequest{Name: "e"})
	b.ok(err)
	if show.GetDefinition() != "name: e\nof_a_newer_program: 1\n" {
		t.Errorf("shown as %q", show.GetDefinition())
	}
	b.ok(b.remove("e"))
	b.ok(b.Reconfigure([]catalog.Model{{Name: "y"}}, func(list []catalog.Model) error {
		if len(list) != 4 { // y, b, c and d
			t.Errorf("%d models in force: %v", len(list), list)
		}
		return nil
	}))

	// What cannot be put into force changes nothing.
	now := b.Current()
	b.refuse = errors.New("refused")
	b.refused("a reload", b.Reconfigure(nil, func([]catalog.Model) error { return b.refuse }), b.refuse, "refused")
	b.refused("an addition", b.add("name: z\n"), b.refuse, "refused")
	if b.Current() != now {
		t.Error("the catalog is another one")
	}
}

// The configuration comes to name what was added: it wins, what was added is set aside
// with why, and with it what falls back to what is no more; taken out again, all is as
// it was.
func TestReloadThatConflicts(t *testing.T) {
	b := newBench(t, &store{}, []catalog.Model{{Name: "a"}}, nil)
	b.ok(b.add("name: b\naliases: [bee]\n"))
	b.ok(b.add("name: c\nfallbacks: [bee]\n"))
	reload := func(models ...catalog.Model) error {
		return b.Reconfigure(models, func(list []catalog.Model) error {
			b.applied = nil
			for _, m := range list {
				b.applied = append(b.applied, m.Name)
			}
			return nil
		})
	}
	b.ok(reload(catalog.Model{Name: "a"}, catalog.Model{Name: "b", ContextTokens: 7}))
	b.want("in force", b.applied, []string{"a", "b"})
	b.want("listed", b.lines(), []string{
		"a configuration", "b configuration",
		`b store cli:ada@host 1: name: "b" belongs to model "b" of the configuration, which wins; remove one of them, or give this one another name`,
		`c store cli:ada@host 1: fallbacks[0]: "bee" is no model or alias of the catalog; name one that is, or add it first`,
	})
	if m, _ := b.Current().Catalog.Resolve("b"); m.ContextTokens != 7 {
		t.Errorf("b is %+v; want the configuration's", m)
	}
	b.want("set aside", b.Current().Aside(), []string{"b", "c"})
	// A configuration that is no list of models changes nothing.
	version := b.Current().Version
	if err := reload(catalog.Model{Name: "a"}, catalog.Model{Name: "z", Fallbacks: []string{"bee"}}); err == nil || !strings.Contains(err.Error(), `models[1].fallbacks[0]: "bee"`) {
		t.Errorf("a configuration that leans on what was added: %v", err)
	}
	if b.Current().Version != version {
		t.Error("it changed something")
	}
	b.ok(reload(catalog.Model{Name: "a"}))
	b.want("in force again", b.applied, []string{"a", "b", "c"})
}

// Another process that has the same store sees a change within seconds, and one that
// cannot reach it keeps what it has.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		one, other := newBench(t, s, nil, nil), newBench(t, s, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- other.Run(ctx) }()
		synctest.Wait()
		before := other.Current()
		one.ok(one.add("name: a\n"))
		began := time.Now()
		<-before.Changed()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		one.want("in force elsewhere", other.applied, []string{"a"})

		s.fail(errors.New("away"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if other.Current().Catalog.Len() != 1 {
			t.Error("the catalog is gone with the store")
		}
		s.fail(nil)
		before = other.Current()
		one.ok(one.remove("a"))
		<-before.Changed()
		if n := other.Current().Catalog.Len(); n != 0 {
			t.Errorf("%d models", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
