package cli_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// database makes one on the server of LLMGW_TEST_POSTGRES, which goes with the
// test, and returns its DSN.
func database(t *testing.T) string {
	t.Helper()
	dsn := os.Getenv("LLMGW_TEST_POSTGRES")
	if dsn == "" {
		t.Skip("LLMGW_TEST_POSTGRES is not set: the DSN of a PostgreSQL whose user may create databases")
	}
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), time.Now().UnixNano())
	execute := func(statement string) {
		ctx := context.WithoutCancel(t.Context()) // which is done when cleanups run
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	execute("CREATE DATABASE " + name)
	t.Cleanup(func() { execute("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// What is in SQLite goes to PostgreSQL and back by backup and restore, and the
// commands work on either.
func TestStoreToPostgres(t *testing.T) {
	postgres := database(t)
	dir := t.TempDir()
	file := "sqlite:" + filepath.Join(dir, "a.db")
	nobody := "http://127.0.0.1:1"
	for i := range 3 {
		must(t, "keys", "create", "--store", file, "--admin", nobody, "--name", fmt.Sprintf("key %d", i), "--rpm", "60")
	}
	first, second := filepath.Join(dir, "first.dump"), filepath.Join(dir, "second.dump")
	must(t, "store", "backup", first, "--store", file)
	if code, _, errs := run(t, "store", "check", "--store", postgres); code != 1 || !strings.Contains(errs, "there is no store at postgres://") {
		t.Errorf("check of an empty database: %d, %s", code, errs)
	}
	must(t, "store", "restore", first, "--store", postgres)
	if out, _ := must(t, "store", "check", "--store", postgres); !strings.HasSuffix(out, ": ok\n") {
		t.Errorf("check: %s", out)
	}
	if code, _, errs := run(t, "store", "restore", first, "--store", postgres); code != 1 || !strings.Contains(errs, "keeps something already") {
		t.Errorf("a second restore: %d, %s", code, errs)
	}
	must(t, "store", "backup", second, "--store", postgres)
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	// Its first line names the schema that it came from, and its last sums all up.
	records := func(dump []byte) string {
		_, rest, _ := strings.Cut(string(dump), "\n")
		return rest[:max(0, strings.LastIndex(rest, `{"end":`))]
	}
	if errA != nil || errB != nil || records(a) == "" || records(a) != records(b) {
		t.Errorf("by PostgreSQL it became another text (%v, %v):\n%s\nwant\n%s", errA, errB, b, a)
	}
	out, _ := must(t, "keys", "create", "--store", postgres, "--admin", nobody, "--name", "new")
	id, _, _ := strings.Cut(strings.TrimPrefix(out, "id: "), "\n")
	must(t, "keys", "revoke", id, "--store", postgres, "--admin", nobody)
	list, _ := must(t, "keys", "list", "--store", postgres, "--admin", nobody)
	if n := strings.Count(list, "\n"); n != 5 || !strings.Contains(list, id) || !strings.Contains(list, "revoked 20") {
		t.Errorf("list:\n%s", list)
	}
	if out, _ := must(t, "store", "migrate", "--store", postgres); !strings.Contains(out, " already\n") {
		t.Errorf("migrate: %s", out)
	}
}
