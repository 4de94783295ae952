package postgres

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgw/llmgw/storage"
)

func TestClass(t *testing.T) {
	for code, want := range map[string]error{
		"53100": storage.ErrUnavailable, // disk full
		"25006": storage.ErrUnavailable, // read-only
		"57P01": storage.ErrUnavailable, // shutdown
		"57014": storage.ErrUnavailable, // statement timeout
		"42501": storage.ErrUnavailable, // no right
		"40P01": storage.ErrUnavailable, // deadlock, once too often
		"42P01": storage.ErrSchema,      // no such table
		"XX001": storage.ErrSchema,      // damaged
		"23505": storage.ErrExists,
		"23514": storage.ErrInvalid,
		"22021": storage.ErrInvalid,
		"":      storage.ErrUnavailable,
	} {
		if err := fail(t.Context(), "x", &pgconn.PgError{Code: code}); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", code, err, want)
		}
	}
	if err := fail(t.Context(), "x", io.ErrUnexpectedEOF); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}

// What others got in the way of is tried again, not for ever, and nothing else
// is.
func TestRepeated(t *testing.T) {
	s := &Store{cfg: DefaultConfig(), pool: &pgxpool.Pool{}}
	for code, want := range map[string]int{"40001": maxTries, "40P01": maxTries, "23505": 1, "57P01": 1} {
		tries := 0
		err := s.call(t.Context(), "x", true, func(context.Context, *pgxpool.Pool) error {
			tries++
			return &pgconn.PgError{Code: code}
		})
		if tries != want || err == nil {
			t.Errorf("%s: %d tries, %v; want %d", code, tries, err, want)
		}
	}
	tries := 0
	err := s.call(t.Context(), "x", true, func(context.Context, *pgxpool.Pool) error {
		if tries++; tries < 3 {
			return &pgconn.PgError{Code: "40P01"}
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("the third succeeds: %d, %v", tries, err)
	}
}
