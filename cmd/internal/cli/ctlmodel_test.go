package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// serverOn runs llmgw server on a file and returns where it is.
func serverOn(t *testing.T, file string) (client, admin string, stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "llmgw", "server", "-c", file)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(log)
	for client == "" {
		var line struct {
			Msg, Listen string
			Admin       string `json:"admin_listen"`
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Msg == "serving" {
			client, admin = line.Listen, "http://"+line.Admin
		}
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for lines.Decode(new(any)) == nil {
		}
	}()
	return client, admin, func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-rest
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// A model is added by a file, asked for, listed, shown, changed and removed while the
// server runs, and what is wrong with a file has its line.
func TestCtlModel(t *testing.T) {
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "100", "--json")
	defer engine.stop(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := write("server.yaml", "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nagent_listen: 127.0.0.1:0\nlog: {format: json}\nshutdown: {grace: 0s}\nauth: {enabled: false}\n"+
		"store: {dsn: \"sqlite:"+filepath.Join(dir, "llmgw.db")+"\"}\nmodels: [{name: tiny}]\nendpoints: [{id: a, url: \""+engine.BaseURL+"\", models: [tiny]}]\n")
	client, admin, stop := serverOn(t, file)
	defer stop()
	// The first request waits until the store is open.
	chat := func(model string) int {
		code, _ := ask(t, http.MethodPost, "http://"+client+"/v1/chat/completions", `{"model": "`+model+`", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}`)
		return code
	}
	if got := chat("tiny"); got != 200 {
		t.Fatal(got)
	}
	model := func(stdin string, args ...string) (code int, out, errs string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code = cli.Main(t.Context(), append(append([]string{"ctl", "model"}, args...), "--admin", admin), cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr})
		return code, stdout.String(), stderr.String()
	}
	want := func(code int, text string, args ...string) {
		t.Helper()
		got, out, errs := model("", args...)
		if got != code || !strings.Contains(out+errs, text) {
			t.Errorf("%v: exit code %d, %q, %q; want %d with %q", args, got, out, errs, code, text)
		}
	}

	good := write("good.yaml", "# kept by the house\nname: spare\naliases: [extra]\nfallbacks: [tiny]\nsource: org/spare\nprofile: {engine: sim}\nscaling: {max: 2}\n")
	bad := write("bad.yaml", "name: spare\nprofile:\n  engine: sim\n  tensor_paralel: 2\n")
	want(1, "bad.yaml:4: profile.tensor_paralel: unknown key; did you mean tensor_parallel?", "add", "-f", bad)
	want(1, "bad.yaml: source: is missing", "add", "-f", bad)
	want(0, "spare is in the catalog, revision 1\n", "add", "-f", good)
	if got := chat("extra"); got != 200 { // nothing runs it, so its fallback answers
		t.Errorf("by an alias that was added: %d", got)
	}
	want(0, "spare is in the catalog, revision 1\n", "add", "-f", good) // there already
	want(1, "was added by cli:", "add", "-f", write("other.yaml", "name: spare\nfallbacks: [tiny]\n"))
	want(1, `other.yaml:1: name: "tiny" belongs to model "tiny" of the configuration, which wins`, "add", "-f", write("other.yaml", "name: tiny\n"))
	if code, out, errs := model("name: spare\nfallbacks: [tiny]\n", "add", "-f", "-", "--replace"); code != 0 || out != "spare is in the catalog, revision 2\n" {
		t.Errorf("from standard input: %d, %q, %q", code, out, errs)
	}
	// Who works on the store alone knows it, too.
	must(t, "keys", "create", "-c", file, "--store", "sqlite:"+filepath.Join(dir, "llmgw.db"), "--models", "spare")
	code, out, _ := model("", "list")
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) < 3 || !strings.HasPrefix(lines[1], "spare  store          cli:") || !strings.HasPrefix(lines[2], "tiny   configuration  -") {
		t.Errorf("list: %d\n%s", code, out)
	}
	want(0, "# from the store\n# by cli:", "show", "spare")
	want(0, "\nname: spare\nfallbacks: [tiny]\n", "show", "spare")
	want(0, "# from the configuration\nname: tiny\n", "show", "tiny")
	want(0, `"origin":"MODEL_ORIGIN_STORE"`, "show", "spare", "--json")
	want(1, `there is no model "gone"`, "show", "gone")
	want(1, `model "tiny" is of the server's configuration; remove it there and send SIGHUP`, "remove", "tiny")
	want(0, "spare is removed\n", "remove", "spare")
	if got := chat("spare"); got != 404 {
		t.Errorf("after it was removed: %d", got)
	}
}
