package sqlite

import (
	"cmp"
	"container/heap"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// usageReader reads rows of packs in one transaction.
type usageReader struct {
	ctx     context.Context //nolint:containedctx // it lives no longer than a call
	q       querier
	callers map[int64]*usageCaller
	kinds   map[int64]*usageKind
}

func newUsageReader(ctx context.Context, q querier) *usageReader {
	return &usageReader{ctx: ctx, q: q, callers: make(map[int64]*usageCaller), kinds: make(map[int64]*usageKind)}
}

// packsAtOnce is how many packs are read ahead.
const packsAtOnce = 16

// packs are those with rows in [from, to), in microseconds, by the time of their
// first row.
func (r *usageReader) packs(from, to int64) iter.Seq2[*packed, error] {
	return func(yield func(*packed, error) bool) {
		scan := func(s scanner) (*packed, error) {
			var seq, first, last int64
			var blob []byte
			if err := s.Scan(&seq, &first, &last, &blob); err != nil {
				return nil, err
			}
			p, err := readPack(seq, first, last, blob)
			return p, damagedPack(seq, err)
		}
		// One that has rows at from began in its minute.
		first, seq := from-from%microsPerMinute, int64(math.MinInt64)
		for {
			some, err := all(r.ctx, r.q, scan, `SELECT seq, first, last, rows FROM usage_packs
WHERE (first, seq) > (?, ?) AND first < ? AND last >= ? ORDER BY first, seq LIMIT ?`, first, seq, to, from, packsAtOnce)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, p := range some {
				first, seq = p.row.at, p.seq
				if !yield(p, nil) {
					return
				}
			}
			if len(some) < packsAtOnce {
				return
			}
		}
	}
}

func damagedPack(seq int64, err error) error {
	if err == nil {
		return nil
	}
	return backend.Damaged("pack %d of usage_packs: %v", seq, err)
}

// Orders of rows of one time.
func bySeq(a, b *packed) int { return cmp.Compare(a.row.seq, b.row.seq) }
func byID(a, b *packed) int  { return cmp.Compare(a.row.id.String(), b.row.id.String()) }

// rows are those that came in [from, to), in microseconds, by time and then as order
// says. A row is the reader's until the next. Only packs that overlap are open at a
// time.
func (r *usageReader) rows(from, to int64, order func(a, b *packed) int) iter.Seq2[*packedRow, error] {
	return func(yield func(*packedRow, error) bool) {
		open := &packHeap{order: order}
		// until yields the rows that came before a time.
		until := func(end int64) bool {
			for len(open.packs) > 0 && open.packs[0].row.at < end {
				p := open.packs[0]
				if p.row.at >= from && !yield(&p.row, nil) {
					return false
				}
				more, err := p.advance()
				switch {
				case err != nil:
					yield(nil, damagedPack(p.seq, err))
					return false
				case more:
					heap.Fix(open, 0)
				default:
					heap.Pop(open)
				}
			}
			return true
		}
		for p, err := range r.packs(from, to) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !until(p.row.at) {
				return
			}
			if _, err := p.advance(); err != nil {
				yield(nil, damagedPack(p.seq, err))
				return
			}
			heap.Push(open, p)
		}
		until(to)
	}
}

// packHeap has the pack in front whose next row is the first.
type packHeap struct {
	packs []*packed
	order func(a, b *packed) int
}

func (h *packHeap) Len() int { return len(h.packs) }
func (h *packHeap) Less(i, j int) bool {
	a, b := h.packs[i], h.packs[j]
	if a.row.at != b.row.at {
		return a.row.at < b.row.at
	}
	return h.order(a, b) < 0
}
func (h *packHeap) Swap(i, j int) { h.packs[i], h.packs[j] = h.packs[j], h.packs[i] }
func (h *packHeap) Push(p any)    { h.packs = append(h.packs, p.(*packed)) } //nolint:forcetypeassert // nothing else is pushed
func (h *packHeap) Pop() any {
	last := len(h.packs) - 1
	p := h.packs[last]
	h.packs[last] = nil
	h.packs = h.packs[:last]
	return p
}

// mostRead bounds what is remembered of usage_common while rows are read.
const mostRead = 10_000

func (r *usageReader) caller(id int64) (*usageCaller, error) {
	return common(r, r.callers, id, parseCaller)
}
func (r *usageReader) kind(id int64) (*usageKind, error) { return common(r, r.kinds, id, parseKind) }

func common[T any](r *usageReader, known map[int64]*T, id int64, parse func([]byte) (T, error)) (*T, error) {
	if c := known[id]; c != nil {
		return c, nil
	}
	var text []byte
	err := r.q.QueryRowContext(r.ctx, `SELECT text FROM usage_common WHERE id = ?`, id).Scan(&text)
	if missing(err) {
		return nil, backend.Damaged("a row of usage refers to %d, which is not in usage_common", id)
	}
	if err != nil {
		return nil, err
	}
	c, err := parse(text)
	if err != nil {
		return nil, backend.Damaged("row %d of usage_common: %v", id, err)
	}
	if len(known) >= mostRead {
		clear(known)
	}
	known[id] = &c
	return &c, nil
}

// usage is a row as it was given to InsertUsage.
func (r *usageReader) usage(row *packedRow) (u storage.Usage, err error) {
	c, err := r.caller(row.caller)
	if err != nil {
		return u, err
	}
	k, err := r.kind(row.kind)
	if err != nil {
		return u, err
	}
	u = storage.Usage{
		KeyID: c.key, Owner: c.owner, Asked: k.asked, Model: k.model, Endpoint: k.endpoint, Provider: k.provider, Path: k.path, Router: k.route,
		Stream: k.stream, Status: k.status, Result: k.result, Code: k.code, Retries: k.retries, Source: k.source,
	}
	if c.charged {
		u.Charged = &storage.BudgetPeriod{KeyID: c.chargedKey, Period: c.chargedTo, Start: rows.FromMicros(c.chargedStart)}
	}
	row.fill(&u)
	return u, nil
}

// chosen says which rows a query wants, besides their times.
type chosen struct {
	key, owner, model string
	lineage           []string // keys; nil: any
}

func choose(ctx context.Context, q querier, u storage.UsageQuery) (c chosen, err error) {
	c = chosen{key: u.KeyID, owner: u.Owner, model: u.Model}
	if u.Lineage == "" {
		return c, nil
	}
	scan := func(s scanner) (id string, err error) { return id, s.Scan(&id) }
	c.lineage, err = all(ctx, q, scan, `SELECT id FROM keys WHERE lineage = ? OR lineage = '' AND id = ?`, u.Lineage, u.Lineage)
	if c.lineage == nil {
		c.lineage = []string{}
	}
	return c, err
}

func (c *chosen) wants(r *usageReader, row *packedRow) (bool, error) {
	if c.key != "" || c.owner != "" || c.lineage != nil {
		by, err := r.caller(row.caller)
		if err != nil {
			return false, err
		}
		if c.key != "" && by.key != c.key || c.owner != "" && by.owner != c.owner || c.lineage != nil && !slices.Contains(c.lineage, by.key) {
			return false, nil
		}
	}
	if c.model == "" {
		return true, nil
	}
	k, err := r.kind(row.kind)
	return err == nil && k.model == c.model, err
}

// reading runs f in a transaction that reads.
func (s *Store) reading(ctx context.Context, op string, f func(tx *sql.Tx) error) error {
	return s.view(ctx, op, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return f(tx)
	})
}

// from is the first microsecond of a time that bounds a query, and until the first
// beyond one.
func from(q storage.UsageQuery) int64 {
	if q.From.IsZero() {
		return 0
	}
	return max(0, rows.Ceil(q.From).UnixMicro())
}

func until(q storage.UsageQuery) int64 {
	if q.To.IsZero() {
		return math.MaxInt64
	}
	return rows.Ceil(q.To).UnixMicro()
}

var errCursor = fmt.Errorf("%w: page: After: no cursor of this list; begin without one", storage.ErrInvalid)
