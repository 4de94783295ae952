package cli

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/apipb"
)

func TestChanged(t *testing.T) {
	for _, tt := range []struct{ before, after, want string }{
		{`{"name":"a","owner":"x","band":"gold"}`, `{"name":"b","owner":"x","tags":{"a":"b"}}`, "band, name, tags"},
		{`{"name":"a"}`, `{"name":"a"}`, "-"},
		{"", `{"name":"a"}`, "-"},
		{`[1]`, `[2]`, "-"},
	} {
		if got := changed(&apipb.AuditRow{Before: &tt.before, After: &tt.after}); got != tt.want {
			t.Errorf("%s, %s: %q; want %q", tt.before, tt.after, got, tt.want)
		}
	}
}

func TestAuditIsPrintable(t *testing.T) {
	var out strings.Builder
	write, flush := writeAudit(printable{&out})
	if err := write(&apipb.AuditRow{Actor: "\x1b[31mada", Action: "key.revoke", Target: "k"}); err != nil {
		t.Fatal(err)
	}
	if err := flush(); err != nil || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "key.revoke") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
