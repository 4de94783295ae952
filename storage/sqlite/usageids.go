package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"
	"sort"
)

// An identity of ours stands in the bucket of the time that it begins with, by the 12
// bytes that follow those of the bucket; one that a client made longer, by a hash of
// all of it. So those of a batch are told from those of before with a few look-ups,
// and written with as many: identities of one time come at one time, but for those of
// long answers. Nothing of it is kept in memory, where another process would not see
// it.
type idEntry [12]byte

const idSize = len(idEntry{})

// bucket is where an identity of ours stands.
func (id *requestID) bucket() int64 { return id.millis() >> 10 }

func (id *requestID) entry() (e idEntry) {
	if id.form == idOwn {
		copy(e[:], id.own[4:])
		return e
	}
	sum := sha256.Sum256([]byte(id.String()))
	copy(e[:], sum[:])
	return e
}

// idStatements read and change identities.
type idStatements struct{ read, write, clear, add, drop *sql.Stmt }

const (
	readIDs  = `SELECT ids FROM usage_ids WHERE bucket = ?`
	writeIDs = `INSERT INTO usage_ids (bucket, ids) VALUES (?, ?) ON CONFLICT DO UPDATE SET ids = excluded.ids`
	clearIDs = `DELETE FROM usage_ids WHERE bucket = ?`
	addID    = `INSERT INTO usage_other_ids (id) VALUES (?) ON CONFLICT DO NOTHING`
	dropID   = `DELETE FROM usage_other_ids WHERE id = ?`
)

func (s idStatements) bucket(ctx context.Context, bucket int64) (ids []byte, err error) {
	err = s.read.QueryRowContext(ctx, bucket).Scan(&ids)
	if missing(err) {
		return nil, nil
	}
	return ids, err
}

// identified is a row by the place of its identity.
type identified struct {
	entry idEntry
	row   int
}

// newIDs adds identities to those that are kept, and reports of each whether it was
// not there. No two of them are the same. Those of one bucket that follow each other
// cost as much as one.
func (s idStatements) newIDs(ctx context.Context, ids []requestID, fresh []bool) error {
	var group []identified
	for i := 0; i < len(ids); {
		id := &ids[i]
		if id.form == idOther {
			res, err := s.add.ExecContext(ctx, id.text)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			fresh[i] = n > 0
			i++
			continue
		}
		bucket := id.bucket()
		for group = group[:0]; i < len(ids) && ids[i].form != idOther && ids[i].bucket() == bucket; i++ {
			group = append(group, identified{ids[i].entry(), i})
		}
		there, err := s.bucket(ctx, bucket)
		if err != nil {
			return err
		}
		with := merge(there, group, fresh)
		if len(with) == len(there) {
			continue
		}
		if _, err := s.write.ExecContext(ctx, bucket, with); err != nil {
			return err
		}
	}
	return nil
}

// merge is what is there, which is sorted, and those of a group that are not, which
// it marks as fresh.
func merge(there []byte, group []identified, fresh []bool) []byte {
	slices.SortFunc(group, func(a, b identified) int { return bytes.Compare(a.entry[:], b.entry[:]) })
	out := make([]byte, 0, len(there)+idSize*len(group))
	for i := range group {
		e := group[i].entry[:]
		n, found := findID(there, e)
		out, there = append(out, there[:n]...), there[n:]
		if fresh[group[i].row] = !found; !found {
			out = append(out, e...)
		}
	}
	return append(out, there...)
}

// findID returns where in sorted entries one stands, or would.
func findID(there, e []byte) (at int, found bool) {
	if n := len(there); n == 0 || bytes.Compare(there[n-idSize:], e) < 0 {
		return n, false // the newest, as most are
	}
	at = idSize * sort.Search(len(there)/idSize, func(i int) bool {
		return bytes.Compare(there[i*idSize:(i+1)*idSize], e) >= 0
	})
	return at, bytes.Equal(there[at:at+idSize], e)
}

// forget removes identities.
func (s idStatements) forget(ctx context.Context, ids []requestID) error {
	buckets := make(map[int64][]idEntry)
	for i := range ids {
		if id := &ids[i]; id.form != idOther {
			buckets[id.bucket()] = append(buckets[id.bucket()], id.entry())
		} else if _, err := s.drop.ExecContext(ctx, id.text); err != nil {
			return err
		}
	}
	for bucket, gone := range buckets {
		there, err := s.bucket(ctx, bucket)
		if err != nil {
			return err
		}
		slices.SortFunc(gone, func(a, b idEntry) int { return bytes.Compare(a[:], b[:]) })
		if there = remove(there, gone); len(there) == 0 {
			_, err = s.clear.ExecContext(ctx, bucket)
		} else {
			_, err = s.write.ExecContext(ctx, bucket, there)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove is what is there without what is gone; both are sorted.
func remove(there []byte, gone []idEntry) []byte {
	out := there[:0]
	for len(there) > 0 && len(gone) > 0 {
		switch c := bytes.Compare(there[:idSize], gone[0][:]); {
		case c > 0:
			gone = gone[1:]
			continue
		case c < 0:
			out = append(out, there[:idSize]...)
		}
		there = there[idSize:]
	}
	return append(out, there...)
}
