package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

//go:embed migrations/*.sql
var migrations embed.FS

// steps are the texts that make each version of the schema from the one before.
func steps() ([]string, error) { return backend.Steps(migrations) }

// version returns the schema's, 0 for none. Tables that are not ours, and a
// version above newest, are ErrSchema. It only reads.
func version(ctx context.Context, q querier, schema string, newest int) (v int, there bool, err error) {
	var tables int
	var ours bool
	err = q.QueryRow(ctx, `SELECT count(DISTINCT n.oid) > 0, count(c.oid), coalesce(bool_or(c.relname = 'schema_version'), false)
FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1`, schema).Scan(&there, &tables, &ours)
	if err != nil || tables == 0 {
		return 0, there, err
	}
	if ours {
		var program string
		err := q.QueryRow(ctx, `SELECT version, program FROM schema_version`).Scan(&v, &program)
		if err != nil && !missing(err) && class(err) != storage.ErrSchema {
			return 0, there, err
		}
		ours = err == nil && program == "llmgw" && v > 0
	}
	switch {
	case !ours:
		return 0, there, fmt.Errorf("%w: schema %q holds tables of something else; set another schema", storage.ErrSchema, schema)
	case v > newest:
		return 0, there, fmt.Errorf("%w: it has version %d and this program knows %d; use the newer program that made it", storage.ErrSchema, v, newest)
	}
	return v, there, nil
}

// Schema returns the version of the schema, 0 for none, and the newest, to which
// Open brings it. It changes nothing, and the store need not be open. Tables that
// are not ours, and ones newer than this program, are [storage.ErrSchema].
func (s *Store) Schema(ctx context.Context) (have, newest int, err error) {
	const op = "read the schema"
	texts, err := steps()
	if err != nil {
		return 0, 0, err
	}
	cfg, err := pgx.ParseConfig(s.cfg.DSN)
	if err != nil {
		return 0, 0, fail(ctx, op, err) // pgx hides the password
	}
	cfg.ConnectTimeout = s.cfg.ConnectTimeout
	cfg.RuntimeParams["search_path"] = pgx.Identifier{s.cfg.Schema}.Sanitize()
	timed, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(timed, cfg)
	if err != nil {
		return 0, 0, fail(ctx, op, err)
	}
	defer conn.Close(context.WithoutCancel(timed))
	have, _, err = version(timed, conn, s.cfg.Schema, len(texts))
	return have, len(texts), fail(ctx, op, err)
}

// migrate brings the schema to the newest version in one transaction. Processes
// that start at once take turns.
func (s *Store) migrate(ctx context.Context, conn *pgx.Conn) (from, to int, err error) {
	texts, err := steps()
	if err != nil {
		return 0, 0, err
	}
	// Without a lock or a write where nothing is to do: a role may lack the right.
	if from, _, err = version(ctx, conn, s.cfg.Schema, len(texts)); err != nil || from == len(texts) {
		return from, len(texts), err
	}
	return from, len(texts), pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true)`); err != nil {
			return err
		}
		if err := s.turn(ctx, tx, "migrations"); err != nil {
			return err
		}
		var there bool
		if from, there, err = version(ctx, tx, s.cfg.Schema, len(texts)); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{s.cfg.Schema}.Sanitize()); err != nil {
				return err
			}
		}
		for v := from; v < len(texts); v++ {
			// Of the simple protocol, which takes several statements.
			_, err := tx.Conn().PgConn().Exec(ctx, texts[v]).ReadAll()
			if err == nil {
				_, err = tx.Exec(ctx, `UPDATE schema_version SET version = $1`, v+1)
			}
			if err != nil {
				return fmt.Errorf("migration %d: %w", v+1, err)
			}
		}
		return nil
	})
}

// turn waits until no other transaction of this schema has the turn at what, and keeps
// it until the transaction ends.
func (s *Store) turn(ctx context.Context, tx pgx.Tx, what string) error {
	h := fnv.New64a()
	_, _ = h.Write([]byte("llmgw " + what + " of " + s.cfg.Schema))
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(h.Sum64())) //nolint:gosec // any 64 bits
	return err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

var errNotOpened = errors.New("it was not opened yet")
