package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a file as ours, in its header: "llmg".
const applicationID = 0x6c6c6d67

// steps are the texts that make each version of the schema from the one before.
func steps() ([]string, error) { return backend.Steps(migrations) }

// version returns the file's schema, 0 for an empty one. A file that is not ours
// or has a newer schema than newest is ErrSchema. It only reads.
func version(ctx context.Context, q querier, newest int) (int, error) {
	var id, v, objects int
	err := q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&id, &v, &objects)
	switch {
	case err != nil:
		return 0, err
	case id == 0 && v == 0 && objects == 0:
		return 0, nil
	case id != applicationID || v < 1:
		return 0, fmt.Errorf("%w: the file is a database of something else (application_id %#x, %d objects)", storage.ErrSchema, id, objects)
	case v > newest:
		return 0, fmt.Errorf("%w: it has version %d and this program knows %d; use the newer program that made it", storage.ErrSchema, v, newest)
	}
	return v, nil
}

// Schema returns the version of the file's schema, 0 for none or no file, and the
// newest, to which Open brings it. It changes nothing, and the store need not be
// open. A file that is not ours, or newer than this program, is
// [storage.ErrSchema].
func (s *Store) Schema(ctx context.Context) (have, newest int, err error) {
	const op = "read the schema"
	texts, err := steps()
	if err != nil {
		return 0, 0, err
	}
	path, err := filepath.Abs(s.cfg.Path)
	if err != nil {
		return 0, 0, fail(ctx, op, err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, len(texts), nil
	}
	db, err := s.connect(path, 1, url.Values{"_query_only": {"1"}})
	if err != nil {
		return 0, 0, fail(ctx, op, err)
	}
	defer db.Close()
	have, err = version(ctx, db, len(texts))
	return have, len(texts), fail(ctx, op, err)
}

// migrate brings the file to the newest schema, one transaction a step.
func migrate(ctx context.Context, db *sql.DB, texts []string) (from int, err error) {
	from = -1
	for {
		done, err := func() (bool, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return false, err
			}
			defer tx.Rollback()
			// Another process may have done it since it was looked at.
			v, err := version(ctx, tx, len(texts))
			if err != nil {
				return false, err
			}
			if from < 0 {
				from = v
			}
			if v == len(texts) {
				return true, nil
			}
			if v == usagePacked {
				if err := packUsage(ctx, tx); err != nil {
					return false, fmt.Errorf("migration %d: %w", v+1, err)
				}
			}
			if _, err := tx.ExecContext(ctx, texts[v]); err != nil {
				return false, fmt.Errorf("migration %d: %w", v+1, err)
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", v+1, applicationID)); err != nil {
				return false, fmt.Errorf("migration %d: %w", v+1, err)
			}
			return false, tx.Commit()
		}()
		if err != nil || done {
			return from, err
		}
	}
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
