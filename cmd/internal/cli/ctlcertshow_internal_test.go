package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/cli/command"
	"github.com/llmgw/llmgw/fleet/pki"
)

// What is shown, at fixed times and of fixed certificates, is text in a golden
// file; -update writes it anew.
func TestCertShowGolden(t *testing.T) {
	const golden = "testdata/cert/show.golden"
	tests := []struct {
		name string
		at   time.Time
		cmd  certShowCmd
		code int
	}{
		{"fine", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"cp-1.crt", "gpu-17.crt", "ca.crt"}, CA: "ca.crt"}, command.ExitDone},
		{"not yet valid", time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"gpu-17.crt"}}, exitFaulty},
		{"expired", time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"gpu-17.crt"}, CA: "ca.crt"}, exitFaulty},
		{"soon", time.Date(2027, 11, 20, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"gpu-17.crt"}, Within: lifetime(30 * 24 * time.Hour)}, exitFaulty},
		{"as a server", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"gpu-17.crt"}, Role: "server", Host: []string{"gw.example"}}, exitFaulty},
		{"at another address", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"cp-1.crt"}, Role: "server", Host: []string{"gw.example", "10.0.0.6"}}, exitFaulty},
		{"of another authority", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"cp-1.crt"}, CA: "other.crt"}, exitFaulty},
		{"an authority that is over", time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC), certShowCmd{Files: []string{"ca.crt"}}, exitFaulty},
	}
	t.Chdir("testdata/cert")
	var out bytes.Buffer
	for _, tt := range tests {
		shown, err := tt.cmd.examineAll(tt.at)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("== " + tt.name + "\n")
		if err := shown.write(&out, false); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
		code := command.ExitDone
		if c, ok := errors.AsType[command.Coded](shown.verdict()); ok {
			code = c.Code
		}
		if code != tt.code {
			t.Errorf("%s: exit code %d, want %d", tt.name, code, tt.code)
		}
	}
	file := strings.TrimPrefix(golden, "testdata/cert/")
	if flag.Lookup("update").Value.String() == "true" { // of the external tests, which are in the same binary
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// Programs read the same as people.
func TestCertShowJSON(t *testing.T) {
	t.Chdir("testdata/cert")
	cmd := certShowCmd{Files: []string{"cp-1.crt"}}
	shown, err := cmd.examineAll(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := shown.write(&out, true); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Certificates []map[string]any `json:"certificates"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Certificates) != 1 {
		t.Fatalf("%v in %s", err, &out)
	}
	c := got.Certificates[0]
	left, _ := c["left_seconds"].(float64)
	faults, _ := c["faults"].([]any)
	if c["role"] != "server" || c["cluster"] != "prod" || c["name"] != "cp-1" || left >= 0 || len(faults) != 1 {
		t.Errorf("%s", &out)
	}
}

// A name in a certificate cannot make lines of its own, or move the cursor.
func TestCertShowIsOneLineAValue(t *testing.T) {
	shown := shownCerts{Certificates: []shownCert{{
		File: "x.crt",
		Info: pki.Info{Name: "a\n  key  fine\x1b[2J", Role: "none", Issuer: "CN=b\nc"},
		Key:  certKey{State: keyAbsent},
	}}}
	var out bytes.Buffer
	if err := shown.write(&out, false); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "\n") != 4 || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}
