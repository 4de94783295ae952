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

func simpleModel(n int) storage.Model {
	at := epoch.Add(time.Duration(n) * time.Minute)
	return storage.Model{Name: fmt.Sprintf("model-%03d", n), Definition: "name: x\n", CreatedAt: at, ChangedAt: at}
}

func fullModel() storage.Model {
	return storage.Model{
		Name: "qwen/72b 'ä'", Definition: "name: \"q\"\nsource: /models/q\n# <&>\t…\n", Actor: "cli:root@host",
		CreatedAt: epoch.Add(123456789), ChangedAt: epoch.Add(time.Hour),
	}
}

// put is one change of a model.
func put(m storage.Model, id string) []storage.ModelChange {
	return []storage.ModelChange{{Model: m, Why: because(id)}}
}

func fillModels(t testing.TB, s storage.Store) {
	t.Helper()
	ctx := t.Context()
	ok(t, s.PutModels(ctx, put(fullModel(), "model-1")))
	changed := fullModel()
	changed.Definition, changed.Revision = "name: other\n", 1
	ok(t, s.PutModels(ctx, put(changed, "model-2")))
	ok(t, s.PutModels(ctx, put(simpleModel(1), "model-3")))
}

func modelsOf(t reporter, s storage.Store) []storage.Model {
	t.Helper()
	models, err := s.ListModels(context.Background())
	ok(t, err)
	return models
}

func testModels(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	equal(t, "models of a new store", len(modelsOf(t, s)), 0)
	second := simpleModel(5)
	batch := []storage.ModelChange{{Model: second, Why: because("a1")}, {Model: fullModel(), Why: because("a2")}}
	ok(t, s.PutModels(ctx, batch))
	ok(t, s.PutModels(ctx, batch)) // once more, as after an answer that was lost
	first := fullModel()
	first.CreatedAt, first.Revision, second.Revision = first.CreatedAt.Truncate(time.Microsecond), 1, 1
	equal(t, "by who else has the store, the first added first", modelsOf(t, other), []storage.Model{first, second})

	changed := storage.Model{Name: first.Name, Definition: "name: new\n", Actor: "bob", CreatedAt: epoch.Add(time.Hour), ChangedAt: epoch.Add(2 * time.Hour), Revision: 1}
	ok(t, other.PutModels(ctx, put(changed, "b1")))
	ok(t, s.PutModels(ctx, put(changed, "b1")))
	want := changed
	want.CreatedAt, want.Revision = first.CreatedAt, 2
	equal(t, "changed", modelsOf(t, s), []storage.Model{want, second})

	wantErr(t, "a change of what was changed", s.PutModels(ctx, put(changed, "b2")), storage.ErrConflict)
	wantErr(t, "a new one of that name", s.PutModels(ctx, put(fullModel(), "b3")), storage.ErrExists)
	wantErr(t, "an end of what was changed", s.RemoveModel(ctx, first.Name, 1, because("c1")), storage.ErrConflict)
	ok(t, s.RemoveModel(ctx, first.Name, 2, because("c2")))
	ok(t, other.RemoveModel(ctx, first.Name, 2, because("c2")))
	wantErr(t, "an end of nothing", s.RemoveModel(ctx, first.Name, 2, because("c3")), storage.ErrNotFound)
	wantErr(t, "a change of nothing", s.PutModels(ctx, put(want, "c4")), storage.ErrNotFound)
	equal(t, "removed", modelsOf(t, other), []storage.Model{second})
	ok(t, s.PutModels(ctx, put(fullModel(), "d1")))
	equal(t, "added again", modelsOf(t, other), []storage.Model{first, second})
	equal(t, "audit rows", len(auditOf(t, s)), 5)
}

// What cannot be done leaves everything as it was, audit rows and those that came
// with it too.
func testModelsRefused(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	fillModels(t, s)
	before, audits := modelsOf(t, s), auditOf(t, s)
	for name, change := range map[string]func(m *storage.Model){
		"no name": func(m *storage.Model) { m.Name = "" }, "NUL": func(m *storage.Model) { m.Definition = "a\x00" },
		"no definition": func(m *storage.Model) { m.Definition = "" }, "a long one": func(m *storage.Model) { m.Definition = strings.Repeat("x", storage.MaxDefinition+1) },
		"no time": func(m *storage.Model) { m.ChangedAt = time.Time{} }, "revision -1": func(m *storage.Model) { m.Revision = -1 },
	} {
		m := simpleModel(7)
		change(&m)
		wantErr(t, "a model with "+name, s.PutModels(ctx, put(m, "x")), storage.ErrInvalid)
	}
	wantErr(t, "a model without why", s.PutModels(ctx, []storage.ModelChange{{Model: simpleModel(7)}}), storage.ErrInvalid)
	wantErr(t, "an end without why", s.RemoveModel(ctx, "model-001", 1, storage.Audit{}), storage.ErrInvalid)
	wantErr(t, "a model that no store keeps", s.RemoveModel(ctx, "a\x00b", 1, because("x")), storage.ErrNotFound)
	wantErr(t, "a good one beside a taken one", s.PutModels(ctx, []storage.ModelChange{
		{Model: simpleModel(7), Why: because("x1")}, {Model: simpleModel(1), Why: because("x2")},
	}), storage.ErrExists)
	taken := because("model-1")
	taken.Actor = "somebody else"
	wantErr(t, "the audit row of another", s.PutModels(ctx, []storage.ModelChange{{Model: simpleModel(7), Why: taken}}), storage.ErrExists)
	equal(t, "models after refusals", modelsOf(t, s), before)
	equal(t, "audit rows after refusals", auditOf(t, s), audits)
	sound(t, s)
}

// Whatever order changes come in, each is made on the revision that it names, and
// once.
func testModelsModel(t *testing.T, open Open) {
	s, id := open(t), 0
	check(t, 10, func(t *rapid.T) {
		ctx := context.Background()
		for _, m := range modelsOf(t, s) {
			id++
			ok(t, s.RemoveModel(ctx, m.Name, m.Revision, because(fmt.Sprint("clear ", id))))
		}
		revisions := map[string]int64{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			id++
			m := simpleModel(rapid.IntRange(1, 2).Draw(t, "model"))
			m.Revision = rapid.Int64Range(0, 2).Draw(t, "revision")
			kept, there := revisions[m.Name]
			remove := rapid.Bool().Draw(t, "remove")
			var err error
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				if remove {
					err = s.RemoveModel(ctx, m.Name, m.Revision, because(fmt.Sprint(id)))
				} else {
					err = s.PutModels(ctx, put(m, fmt.Sprint(id)))
				}
			}
			switch {
			case !remove && m.Revision == 0 && there:
				wantErr(t, "a new one of that name", err, storage.ErrExists)
			case !there && (remove || m.Revision > 0):
				wantErr(t, "a change of nothing", err, storage.ErrNotFound)
			case there && m.Revision != kept:
				wantErr(t, "another revision", err, storage.ErrConflict)
			case remove:
				ok(t, err)
				delete(revisions, m.Name)
			default:
				ok(t, err)
				revisions[m.Name]++
			}
			now := map[string]int64{}
			for _, m := range modelsOf(t, s) {
				now[m.Name] = m.Revision
			}
			equal(t, "revisions", now, revisions)
		}
	})
}
