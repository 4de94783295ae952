package storedsn_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/storage"
)

const canary = "c4n4ry"

func TestDSN(t *testing.T) {
	tests := []struct {
		name, dsn string
		want      string // as shown; empty: refused
	}{
		{"file", "sqlite:llmgw.db", "sqlite:llmgw.db"},
		{"absolute file", "sqlite:/var/lib/llmgw.db", "sqlite:/var/lib/llmgw.db"},
		{"three slashes", "sqlite:///var/lib/llmgw.db", "sqlite:/var/lib/llmgw.db"},
		{"postgres", "postgres://db.example:5433/llmgw", "postgres://db.example:5433/llmgw"},
		{"other name", "postgresql://db.example/llmgw", "postgres://db.example/llmgw"},
		{"password", "postgres://" + canary + ":" + canary + "@db.example/llmgw?sslmode=verify-full", "postgres://hidden@db.example/llmgw"},
		{"password in the query", "postgres://db.example/llmgw?password=" + canary, "postgres://db.example/llmgw"},
		{"empty", "", ""},
		{"no scheme", canary, ""},
		{"other scheme", "mysql://" + canary + "@host/db", ""},
		{"no path", "sqlite:", ""},
		{"host for a file", "sqlite://" + canary, ""},
		{"in memory", "sqlite::memory:", ""},
		{"no slashes", "postgres:" + canary, ""},
		{"raw percent", "postgres://u:" + canary + "%zz@host/db", ""},
		{"raw slash", "postgres://u:12/" + canary + "@host/db", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := storedsn.DSN(tt.dsn)
			var logged strings.Builder
			slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "dsn", d)
			text, _ := d.MarshalText()
			shown := fmt.Sprintf("%v %+v %#v %s %q %s %s", d, d, d, d, d, logged.String(), text)
			err := d.Validate()
			store, openErr := storedsn.Open(d, nil, nil)
			if (err == nil) != (tt.want != "") || (openErr == nil) != (err == nil) {
				t.Fatalf("Validate: %v, Open: %v; want accepted: %t", err, openErr, tt.want != "")
			}
			if strings.Contains(shown+fmt.Sprint(err, openErr), canary) {
				t.Errorf("the secret is shown: %s %v %v", shown, err, openErr)
			}
			if err != nil {
				if !errors.Is(err, storedsn.ErrInvalid) {
					t.Errorf("%v is not ErrInvalid", err)
				}
				return
			}
			if got := d.String(); got != tt.want {
				t.Errorf("shown as %q; want %q", got, tt.want)
			}
			if _, err := store.Key(t.Context(), "k"); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("a store that was not opened answers %v; want ErrUnavailable", err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	st, err := storedsn.Open(storedsn.DSN("sqlite:"+filepath.Join(t.TempDir(), "llmgw.db")), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Key(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an open store answers %v; want ErrNotFound", err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
