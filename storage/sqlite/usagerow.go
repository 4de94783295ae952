package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/storage"
)

// rowsAtOnce is how many rows a statement inserts: beyond that it gets no cheaper.
const rowsAtOnce = 50

// errSomeThere says that some rows of a batch were kept before: which, insertMany
// cannot tell.
var errSomeThere = errors.New("some rows are there already")

// insertMany inserts rows that are new, as they are but for a batch that is sent
// again; else it returns errSomeThere, and the transaction is to be undone. That is
// cheaper than a savepoint, for which SQLite copies every page that it changes.
func insertMany(ctx context.Context, tx *sql.Tx, batch []*storage.Usage) ([]*storage.Usage, error) {
	insert, err := prepareUsage(ctx, tx, rowsAtOnce)
	if err != nil {
		return nil, err
	}
	defer insert.Close()
	var row usageRow
	whole := len(batch) - len(batch)%rowsAtOnce
	for part := range slices.Chunk(batch[:whole], rowsAtOnce) {
		if n, err := row.insert(ctx, insert, part); err != nil {
			return nil, err
		} else if n < rowsAtOnce {
			return nil, errSomeThere
		}
	}
	if fresh, err := insertEach(ctx, tx, batch[whole:]); err != nil {
		return nil, err
	} else if len(fresh) < len(batch)-whole {
		return nil, errSomeThere
	}
	return batch, nil
}

// insertEach keeps the rows that are not there and returns them.
func insertEach(ctx context.Context, tx *sql.Tx, batch []*storage.Usage) ([]*storage.Usage, error) {
	insert, err := prepareUsage(ctx, tx, 1)
	if err != nil {
		return nil, err
	}
	defer insert.Close()
	var row usageRow
	fresh := make([]*storage.Usage, 0, len(batch))
	for i, u := range batch {
		if n, err := row.insert(ctx, insert, batch[i:i+1]); err != nil {
			return nil, err
		} else if n > 0 {
			fresh = append(fresh, u)
		}
	}
	return fresh, nil
}

func prepareUsage(ctx context.Context, tx *sql.Tx, n int) (*sql.Stmt, error) {
	return tx.PrepareContext(ctx, `INSERT INTO usage_rows (request_id, at, key_id, rest) VALUES (?, ?, ?, ?)`+
		strings.Repeat(`, (?, ?, ?, ?)`, n-1)+` ON CONFLICT DO NOTHING`)
}

// usageRow makes rows in the form in which they are kept. Its memory is used again.
type usageRow struct {
	text []byte
	ends []int
	args []any
}

// insert inserts as many rows as the statement is for, and returns how many of them
// were new.
func (r *usageRow) insert(ctx context.Context, insert *sql.Stmt, batch []*storage.Usage) (n int64, err error) {
	r.text, r.ends, r.args = r.text[:0], r.ends[:0], r.args[:0]
	for _, u := range batch {
		r.rest(u)
		r.ends = append(r.ends, len(r.text))
	}
	all, from := string(r.text), 0
	for i, u := range batch {
		r.args = append(r.args, u.RequestID, u.At.UnixMicro(), u.KeyID, all[from:r.ends[i]])
		from = r.ends[i]
	}
	res, err := insert.ExecContext(ctx, r.args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// rest appends the column rest: what the view usage takes apart.
func (r *usageRow) rest(u *storage.Usage) {
	r.text = append(r.text, '[')
	r.string(u.Owner)
	r.unless(u.Asked == u.Model, u.Asked)
	for _, text := range [...]string{u.Model, u.Endpoint, u.Provider, u.Path, u.Router} {
		r.string(text)
	}
	stream := int64(0)
	if u.Stream {
		stream = 1
	}
	r.int(stream)
	r.int(int64(u.Latency))
	r.known((*int64)(u.TTFT))
	r.int(int64(u.Status))
	r.string(u.Result)
	r.string(u.Code)
	r.int(int64(u.Retries))
	r.known(u.Tokens.Input)
	r.known(u.Tokens.CachedInput)
	r.known(u.Tokens.Output)
	r.known(u.Tokens.Reasoning)
	r.string(u.Source.String())
	r.known(u.CostNanos)
	if c := u.Charged; c != nil {
		r.unless(c.KeyID == u.KeyID, c.KeyID)
		r.string(c.Period.String())
		r.int(c.Start.UnixMicro())
	} else {
		r.text = append(r.text, "null,null,null,"...)
	}
	r.text[len(r.text)-1] = ']'
}

func (r *usageRow) int(n int64) { r.text = append(strconv.AppendInt(r.text, n, 10), ',') }

func (r *usageRow) known(n *int64) {
	if n == nil {
		r.text = append(r.text, "null,"...)
		return
	}
	r.int(*n)
}

func (r *usageRow) unless(without bool, s string) {
	if without {
		r.text = append(r.text, "null,"...)
		return
	}
	r.string(s)
}

// string appends a text, which is UTF-8 without NUL, as JSON has it.
func (r *usageRow) string(s string) {
	const hex = "0123456789abcdef"
	b := append(r.text, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		if from = i + 1; c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	r.text = append(append(b, s[from:]...), '"', ',')
}
