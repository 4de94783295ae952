package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// expected is a command and what comes of it.
type expected struct {
	line     string // arguments, with spaces between; ” is an empty one
	code     int
	out, err string // expressions that match; empty: anything
}

func expect(t *testing.T, list []expected) {
	t.Helper()
	for _, e := range list {
		args := strings.Fields(e.line)
		for i, a := range args {
			args[i] = strings.ReplaceAll(a, "”", "")
		}
		code, out, errs := run(t, args...)
		if code != e.code || !regexp.MustCompile(e.out).MatchString(out) || !regexp.MustCompile(e.err).MatchString(errs) {
			t.Errorf("llmgw %s: exit code %d, %q, %q; want %d, %s, %s", e.line, code, out, errs, e.code, e.out, e.err)
		}
		if strings.Contains(out+errs, "canary") {
			t.Errorf("llmgw %s: a secret in %q, %q", e.line, out, errs)
		}
	}
}

func there(t *testing.T, want bool, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(name); (err == nil) != want {
			t.Errorf("%s: %v; want it there: %t", name, err, want)
		}
	}
}

// What cannot be a key is refused, every field by its name, and so is a key that
// there is not, with those that may have been meant.
func TestKeysRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("LLMGW_ADMIN_LISTEN", "127.0.0.1:1")
	config := "admin_listen: 127.0.0.1:1\nauth: {enabled: false}\nmodels: [{name: big, aliases: [large]}]\n" +
		"endpoints: [{id: a, url: \"http://127.0.0.1:8000\", models: [big, small]}]\n"
	if err := os.WriteFile("server.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, []expected{
		{"keys list", 1, "^$", `^llmgw: keys list: nothing listens at http://127.0.0.1:1, and there is no store at hand; name the server's configuration with -c, or the store with --store\n$`},
		{"keys create", 1, "^$", "there is no store at hand"},
		{"keys list --store sqlite:keys.db", 1, "^$", "there is no store at sqlite:.*keys.db; llmgw server makes one"},
	})
	there(t, false, "keys.db", "llmgw.db")
	expect(t, []expected{
		{"keys create --store sqlite:keys.db --name ci --json", 0, `^\{"id":"key_[a-z2-7]{20}","key":"llmgw_[0-9A-Za-z]{49}","record":\{.*\},"warnings":\[\]\}\n$`, ""},
		{"keys list --store sqlite:keys.db --owner nobody", 0, "^There are no keys.\n$", ""},
		{
			"keys create --store sqlite:keys.db --rpm=-5 --tpm 0 --concurrency 99999999999 --budget 1.50 --expires yesterday", 1, "^$",
			`requests_per_minute: -5; want 1 to .* tokens_per_minute: 0; .* concurrency: 99999999999; .*budget "1.50" has no period; .*expires: "yesterday"; want a time such as`,
		},
		{"keys create --store sqlite:keys.db --models ”", 1, "^$", "--models has an empty name"},
		{"keys create --store sqlite:keys.db --expires ”", 1, "^$", "--expires is empty"},
		{"keys create --store sqlite:keys.db --budget ”", 1, "^$", "--budget is empty"},
		{"keys create --store sqlite:keys.db --name ”", 1, "^$", "--name is empty"},
		{"keys create --store sqlite:keys.db --owner ”", 1, "^$", "--owner is empty"},
		{"keys create --store mysql://u:canary@host/db", 80, "^$", "--store: .*its scheme is neither sqlite nor postgres"},
		{"keys list --admin localhost", 80, "^$", "--admin: "},
		{"keys show", 80, "^$", "<id>"},
		{"keys show ci --store sqlite:keys.db", 1, "^$", `keys show: there is no key "ci"; did you mean key_[a-z2-7]{20} \(llmgw_....\.\.\....., name "ci"\)\?\n$`},
		{"keys revoke key_zzzzzzzzzzzzzzzzzzzz --store sqlite:keys.db", 1, "^$", `there is no key "key_zzzzzzzzzzzzzzzzzzzz"; llmgw keys list shows those that there are\n$`},
		{"keys revoke llmgw_canary7890123456789012345678901234567890123456789 --store sqlite:keys.db", 1, "^$", "begins like a key itself"},
		{"keys update key_a --store sqlite:keys.db", 1, "^$", "there is nothing to change"},
		{"keys update key_a --store sqlite:keys.db --budget ”", 1, "^$", "--budget is empty; leave it out to keep what there is"},
		{"keys rotate key_a --overlap lately --store sqlite:keys.db", 1, "^$", `--overlap: "lately"; want such as 7d, 24h or 30m`},
		{"keys rotate key_a --expires ”", 1, "^$", "--expires is empty"},
		{"ctl limits key_a --admin http://127.0.0.1:1", 1, "^$", "^llmgw: ctl limits: nothing listens at http://127.0.0.1:1"},
		{"ctl limits key_a -c server.yaml", 1, "^$", "^llmgw: ctl limits: nothing listens at http://127.0.0.1:1"},
		{"ctl limits key_a -c gone.yaml", 1, "^$", "^llmgw: ctl limits: open gone.yaml"},
		{"ctl limits key_a --admin 127.0.0.1:1", 80, "^$", "--admin: .*is no URL"},
		// Models and bands are checked against a configuration.
		{"keys create -c server.yaml --store sqlite:keys.db --models big,smal --band golden", 1, "^$", `band: there is no "golden"; want one of platinum, gold,.*there is no model "smal", but small`},
		{"keys create -c server.yaml --store sqlite:keys.db --budget 1/day", 0, "^id: ", "warning: none of the models that it may use has a price"},
		{"keys create -c server.yaml --store sqlite:keys.db --models tiny", 1, "^$", `there is no model "tiny", but big, large, small\n`},
		{"keys create -c server.yaml --store sqlite:keys.db --models large,small --band gold", 0, "^id: ", "warning: auth.enabled is false in server.yaml"},
	})
}

func TestStoreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("LLMGW_ADMIN_LISTEN", "127.0.0.1:1")
	for name, text := range map[string]string{
		"foreign.csv": "id,name\n1,a\n", "cut.dump": `{"format":"llmgw-store","version":1,"schema":1}` + "\n" + `{"mark":{"name":"rows","at":1}}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, []expected{
		{"store backup x.dump --store sqlite:new.db", 1, "^$", "there is no store at sqlite:/.*new.db"},
		{"usage --store sqlite:new.db", 1, "^$", "there is no store"},
		{"store restore foreign.csv --store sqlite:new.db", 1, "^$", "foreign.csv cannot be restored, and nothing was changed"},
		{"store restore cut.dump --store sqlite:new.db", 1, "^$", "cut.dump cannot be restored, and nothing was changed: .*cut off"},
		{"store restore nonexistent --store sqlite:new.db", 1, "^$", "no such file"},
		{"store restore - --store sqlite:new.db", 1, "^$", "there is no standard input"},
		{"store restore cut.dump", 1, "^$", "no store is named"},
		{"store check --store sqlite:foreign.csv", 1, "^$", "store check: "},
		{"store backup --store sqlite:new.db", 80, "^$", "<file>"},
	})
	there(t, false, "new.db", "x.dump")
	expect(t, []expected{
		{"keys create --store sqlite:a.db", 0, "^id: ", ""},
		{"store check --store sqlite:a.db", 0, "^sqlite:/.*a.db: ok\n$", ""},
		{"store migrate --store sqlite:a.db", 0, "a.db: version [0-9]+ already\n$", ""},
		{"store backup a.dump --store sqlite:a.db", 0, "^$", "a.dump"},
		{"store backup a.dump --store sqlite:a.db", 1, "^$", "a.dump is there already; name another file"},
		{"store restore a.dump --store sqlite:a.db", 1, "^$", "keeps something already, and nothing was changed; restore into a new one"},
		{"usage --store sqlite:a.db", 0, "^Nothing was used in that time.\n$", ""},
		{"usage --store sqlite:a.db --csv", 0, "^request_id,at,key_id,", ""},
		{"usage --csv --json", 80, "^$", "--csv and --json"},
		{"usage --csv --by key", 80, "^$", "--by and --csv|--csv and --by"},
		{"usage --store sqlite:a.db --key llmgw_canary", 1, "^$", "begins like a key itself"},
		{"usage --store sqlite:a.db --key key_zzz", 1, "^$", `--key: there is no key "key_zzz"`},
		{"usage --store sqlite:a.db --owner nobody", 1, "^$", `--owner: "nobody": no key has that owner`},
		{"usage --store sqlite:a.db --model nothing", 1, "^$", `--model: "nothing": no request that is kept was served by a model of that name`},
		{"usage --store sqlite:a.db --by day,week", 1, "^$", `--by: "week"; want one or more of day, key, model, owner`},
		{"usage --store sqlite:a.db --by day,day", 1, "^$", `--by: "day" is there twice`},
		{"usage --store sqlite:a.db --from lately", 1, "^$", `--from: "lately": want how long ago, such as 7d`},
		{"usage --store sqlite:a.db --from 2026-11-30 --to 2026-11-30", 1, "^$", "--to 2026-11-30 is not after --from 2026-11-30"},
	})
}
