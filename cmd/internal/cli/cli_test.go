package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

const noExitSleep = "atexit_sleep_ms=0"

// TestMain makes the binary a command that scripts and tests start as llmgw.
func TestMain(m *testing.M) {
	// Under the race detector a process waits a second before it ends, to let
	// others finish their reports.
	_ = os.Setenv("GORACE", noExitSleep) // for the commands that tests start
	testscript.Main(m, map[string]func(){
		"llmgw": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: func(env *testscript.Env) error { env.Setenv("GORACE", noExitSleep); return nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status,
		},
	})
}

// status N COMMAND… runs a command that must end with exit code N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// started is a command that serves and what it printed about itself.
type started struct {
	BaseURL  string   `json:"base_url"`
	AdminURL string   `json:"admin_url"`
	Models   []string `json:"models"`
	APIKey   string   `json:"api_key"`
	cmd      *exec.Cmd
	rest     *bufio.Reader
}

// start runs llmgw and reads its first line of output.
func start(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{cmd: exec.CommandContext(t.Context(), "llmgw", args...)}
	s.cmd.Stderr = t.Output()
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.rest = bufio.NewReader(out)
	line, err := s.rest.ReadBytes('\n')
	if err != nil {
		t.Fatalf("llmgw %v printed %q and ended: %v", args, line, errors.Join(err, s.cmd.Wait()))
	}
	if err := json.Unmarshal(line, s); err != nil {
		t.Fatalf("first line %q: %v", line, err)
	}
	return s
}

// stop sends SIGTERM, which must end the command with code 0 and no further
// output.
func (s *started) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(s.rest)
	if err != nil || len(rest) > 0 {
		t.Errorf("output after the first line: %q, %v", rest, err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	return askWith(t, "", method, url, body)
}

func askWith(t *testing.T, key, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// The demo prints one line when it is ready, serves, and ends on SIGTERM. It asks
// nobody for a key if it is told so.
func TestDemo(t *testing.T) {
	s := start(t, "demo", "--no-auth", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--json")
	if len(s.Models) == 0 {
		t.Fatal("no models")
	}
	if s.APIKey != "" {
		t.Error("a key that nobody asks for")
	}
	code, answer := ask(t, http.MethodPost, s.BaseURL+"/v1/chat/completions",
		`{"model": "`+s.Models[0]+`", "stream": true, "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}`)
	if code != http.StatusOK || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("stream = %d %q", code, answer)
	}
	for url, want := range map[string]string{
		s.BaseURL + "/v1/models": s.Models[0], s.BaseURL + "/health": "ok", s.BaseURL + "/ready": "ready",
		s.AdminURL + "/metrics": "llmgw_", s.AdminURL + "/debug/pprof/": "heap",
	} {
		if code, answer := ask(t, http.MethodGet, url, ""); code != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("GET %s = %d %.200q, want 200 with %q", url, code, answer, want)
		}
	}
	s.stop(t)
}

// The curl line that the demo prints for people is a request that works. The
// line is taken apart here as a shell does, so that the test needs no curl.
func TestDemoPrintsACommandThatWorks(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "llmgw", "demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	curl := regexp.MustCompile(`^curl -N (http://\S+) -H 'Authorization: Bearer (\S+)' -H 'Content-Type: application/json' -d '([^']+)'$`)
	var found []string
	lines := bufio.NewScanner(out)
	for lines.Scan() && found == nil {
		found = curl.FindStringSubmatch(lines.Text())
	}
	if found == nil {
		t.Fatal("no curl line was printed")
	}
	if code, answer := askWith(t, found[2], http.MethodPost, found[1], found[3]); code != http.StatusOK || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("answer = %d %q, want a stream that ends with [DONE]", code, answer)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end of its output
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v", err)
	}
}

// A port that is taken is told with the flag that chooses another.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	listen := func() net.Listener {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	taken, second := listen(), listen()
	for _, args := range [][]string{
		{"demo", "--listen", taken.Addr().String(), "--admin-listen", "127.0.0.1:0"},
		{"demo", "--listen", "127.0.0.1:0", "--admin-listen", taken.Addr().String()},
		{"demo", "--listen", taken.Addr().String(), "--admin-listen", second.Addr().String()},
		{"sim", "--listen", taken.Addr().String()},
	} {
		out, err := exec.CommandContext(t.Context(), "llmgw", args...).CombinedOutput()
		if strings.Count(string(out), "\n") != 1 || !strings.HasPrefix(string(out), "llmgw: "+args[0]+": ") {
			t.Errorf("llmgw %v: %q; want one line of that command", args, out)
		}
		if err == nil || !strings.Contains(string(out), taken.Addr().String()) || !strings.Contains(string(out), "choose another port with --listen") {
			t.Errorf("llmgw %v: %v, %q", args, err, out)
		}
	}
}

func TestSim(t *testing.T) {
	s := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "100", "--json")
	if code, answer := ask(t, http.MethodGet, s.BaseURL+"/v1/models", ""); code != http.StatusOK || !strings.Contains(answer, `"tiny"`) {
		t.Errorf("/v1/models = %d %q", code, answer)
	}
	s.stop(t)
}

// A server with a file: SIGHUP applies a changed list of endpoints while it
// serves, and a file with a fault changes nothing.
func TestServerReload(t *testing.T) {
	t.Parallel()
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "100", "--json")
	file := filepath.Join(t.TempDir(), "server.yaml")
	write := func(endpoints string) {
		text := "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nlog: {format: json}\nshutdown: {grace: 0s}\nauth: {enabled: false}\nendpoints: " + endpoints + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[]")
	cmd := exec.CommandContext(t.Context(), "llmgw", "server", "-c", file)
	logged, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := json.NewDecoder(logged)
	// next reads the log up to a message.
	next := func(msg string) (attrs map[string]any) {
		for attrs["msg"] != msg {
			attrs = nil
			if err := log.Decode(&attrs); err != nil {
				t.Fatalf("waiting for %q in the log: %v", msg, err)
			}
		}
		return attrs
	}
	hangup := func() {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	serving := next("serving")
	if pid := serving["pid"]; pid != float64(cmd.Process.Pid) {
		t.Errorf("logged pid = %v, want %d", pid, cmd.Process.Pid)
	}
	url := "http://" + serving["listen"].(string)
	call := func() int {
		code, _ := ask(t, http.MethodPost, url+"/v1/chat/completions", `{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}`)
		return code
	}
	if code, _ := ask(t, http.MethodGet, url+"/ready", ""); code != http.StatusServiceUnavailable {
		t.Errorf("/ready without an endpoint = %d, want 503", code)
	}

	write(`[{id: a, url: "` + engine.BaseURL + `", models: [{name: m, upstream: tiny}]}]`)
	hangup()
	if got := next("configuration reloaded")["changed"]; fmt.Sprint(got) != "[endpoints]" {
		t.Errorf("changed %v, want [endpoints]", got)
	}
	if code, _ := ask(t, http.MethodGet, url+"/ready", ""); code != http.StatusOK {
		t.Errorf("/ready with an endpoint = %d, want 200", code)
	}
	if code := call(); code != http.StatusOK {
		t.Errorf("a request = %d, want 200", code)
	}

	write(`[{id: a, url: "ftp://x", models: [m]}, {}]`)
	hangup()
	if got := next("the configuration was not reloaded; the old one stays in force")["faults"]; got != 4.0 {
		t.Errorf("faults = %v, want 4", got)
	}
	if got := next("fault in the configuration")["err"]; !strings.Contains(fmt.Sprint(got), `server.yaml:6: endpoints[0].url: "ftp://x"`) {
		t.Errorf("fault = %v", got)
	}
	if code := call(); code != http.StatusOK {
		t.Errorf("a request after a refused reload = %d, want 200", code)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if told := next("shutting down; a second signal ends the process at once"); told["grace"] != "0s" || told["drain"] != "1m0s" {
		t.Errorf("after SIGTERM it logs %v", told)
	}
	next("draining")
	if _, err := io.Copy(io.Discard, logged); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	engine.stop(t)
}

// With a Redis that is away the log says so, and has nothing that is not the
// log's: a driver's own line would not be JSON.
func TestServerLogsJSONAlone(t *testing.T) {
	t.Parallel()
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "100", "--json")
	defer engine.stop(t)
	file, dsn := filepath.Join(t.TempDir(), "server.yaml"), "sqlite:"+filepath.Join(t.TempDir(), "keys.db")
	text := "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nlog: {format: json}\nshutdown: {grace: 0s}\nstore: {dsn: \"" + dsn +
		"\"}\nlimits: {redis_url: \"redis://127.0.0.1:1\"}\nendpoints: [{id: a, url: \"" + engine.BaseURL + "\", models: [tiny]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := must(t, "keys", "create", "-c", file, "--rpm", "5", "--json")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "llmgw", "server", "-c", file)
	logged, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked, away := false, false
	for log := json.NewDecoder(logged); ; {
		var line struct{ Msg, Listen string }
		if err := log.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Msg == "serving":
			for range 3 { // in a row tell that Redis is away
				code, answer := askWith(t, made.Key, http.MethodPost, "http://"+line.Listen+"/v1/chat/completions",
					`{"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}`)
				if asked = true; code != http.StatusOK {
					t.Errorf("%d %s", code, answer)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		case strings.HasPrefix(line.Msg, "redis cannot be asked"):
			away = true
		}
	}
	if !asked || !away {
		t.Errorf("asked: %t; the log says that Redis is away: %t", asked, away)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
