package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

type scanner interface{ Scan(dest ...any) error }

// where gathers the conditions of a query.
type where struct {
	conditions []string
	args       []any
}

// and adds a condition, in which each ? stands for an argument.
func (w *where) and(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

// equal chooses by a text; the empty one chooses nothing out.
func (w *where) equal(column, value string) {
	if value != "" {
		w.and(column+" = ?", value)
	}
}

// lineage chooses by keys that follow each other; the empty one chooses nothing
// out.
func (w *where) lineage(id string) {
	if id != "" {
		w.and("key_id IN (SELECT id FROM keys WHERE lineage = ? OR lineage = '' AND id = ?)", id, id)
	}
}

// between chooses by a time in [from, to).
func (w *where) between(column string, from, to time.Time) {
	if !from.IsZero() {
		w.and(column+" >= ?", rows.Ceil(from))
	}
	if !to.IsZero() {
		w.and(column+" < ?", rows.Ceil(to))
	}
}

func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// place says where in a list a row is.
type place[T any] struct {
	list   rows.List
	texts  int
	after  string // condition of the rows after a place, with its time and texts
	cursor func(*T) (time.Time, []string)
	byText bool // the list is in an order of texts alone: after has no time
}

// list returns a page and the cursor of the next.
func list[T any](ctx context.Context, s *Store, op string, page storage.Page, p place[T], from string, w where, order string, scan func(scanner) (T, error)) (out []T, next string, err error) {
	limit, err := rows.Limit(page)
	if err != nil {
		return nil, "", fail(ctx, op, err)
	}
	for _, arg := range w.args {
		// No row has such a text, and PostgreSQL refuses it.
		if t, ok := arg.(string); ok && !rows.Keepable(t) {
			return nil, "", nil
		}
	}
	if page.After != "" {
		at, texts, err := rows.ParseCursor(p.list, page.After, p.texts)
		if err != nil {
			return nil, "", fail(ctx, op, err)
		}
		var args []any
		if !p.byText {
			args = append(args, at)
		}
		for _, t := range texts {
			args = append(args, t)
		}
		w.and(p.after, args...)
	}
	err = s.view(ctx, op, func(ctx context.Context, q querier) error {
		// One more than wanted tells whether there is a next page.
		out, err = all(ctx, q, scan, fmt.Sprintf("%s%s %s LIMIT %d", from, w.String(), order, limit+1), slices.Clone(w.args)...)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(out) > limit {
		out = out[:limit]
		at, texts := p.cursor(&out[limit-1])
		next = rows.Cursor(p.list, at, texts...)
	}
	return out, next, nil
}

// all returns every row of a query.
func all[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) (out []T, err error) {
	err = each(ctx, q, scan, func(v T) error { out = append(out, v); return nil }, query, args...)
	return out, err
}

// each calls f with every row of a query.
func each[T any](ctx context.Context, q querier, scan func(scanner) (T, error), f func(T) error, query string, args ...any) error {
	r, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		v, err := scan(r)
		if err != nil {
			return err
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return r.Err()
}

// marks is a list of n parameters.
func marks(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	return b.String()
}

// orNull is a time as it is kept; zero is NULL.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orZero is a time as it was kept.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return rows.Time(*t)
}
