package postgres

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSchemaText fails when schema.txt is not what the migrations make; with
// -update it writes it.
func TestSchemaText(t *testing.T) {
	update := os.Getenv("LLMGW_TEST_UPDATE") != ""
	dsn := os.Getenv("LLMGW_TEST_POSTGRES")
	if dsn == "" {
		t.Skip("LLMGW_TEST_POSTGRES is not set: the DSN of a PostgreSQL whose user may create schemas")
	}
	cfg := DefaultConfig()
	cfg.DSN, cfg.Schema = dsn, "test_schema_text"
	s, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	drop := func(ctx context.Context) {
		if _, err := s.pool.Exec(ctx, `DROP SCHEMA test_schema_text CASCADE`); err != nil {
			t.Error(err)
		}
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer drop(context.WithoutCancel(t.Context()))
	lines, err := describe(t.Context(), s.pool, cfg.Schema)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lines, "\n") + "\n"
	if update {
		if err := os.WriteFile("schema.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(schemaText, got); diff != "" {
		t.Errorf("schema.txt is stale; set LLMGW_TEST_UPDATE=1 and run this test (-kept +made):\n%s", diff)
	}
}
