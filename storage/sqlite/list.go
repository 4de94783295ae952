package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// where gathers the conditions of a query.
type where struct {
	conditions []string
	args       []any
}

func (w *where) and(condition string, args ...any) {
	w.conditions = append(w.conditions, condition)
	w.args = append(w.args, args...)
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
		w.and(column+" >= ?", rows.Ceil(from).UnixMicro())
	}
	if !to.IsZero() {
		w.and(column+" < ?", rows.Ceil(to).UnixMicro())
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
	if page.After != "" {
		at, texts, err := rows.ParseCursor(p.list, page.After, p.texts)
		if err != nil {
			return nil, "", fail(ctx, op, err)
		}
		var args []any
		if !p.byText {
			args = append(args, at.UnixMicro())
		}
		for _, t := range texts {
			args = append(args, t)
		}
		w.and(p.after, args...)
	}
	err = s.view(ctx, op, func(q *sql.DB) error {
		// One more than wanted tells whether there is a next page.
		out, err = all(ctx, q, scan, from+w.String()+" "+order+" LIMIT ?", append(w.args, limit+1)...)
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
	r, err := q.QueryContext(ctx, query, args...)
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
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// micros is a time as it is kept; zero is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return rows.FromMicros(*us)
}
