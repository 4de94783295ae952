package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// A server that is killed in the middle of its work leaves a log that can be
// replayed up to there, and the next one goes on in it.
func TestReplayAfterKill(t *testing.T) {
	t.Parallel()
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "1000", "--json")
	defer engine.stop(t)
	dir := t.TempDir()
	file, logDir := filepath.Join(dir, "server.yaml"), filepath.Join(dir, "record")
	text := "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nlog: {format: json}\nshutdown: {grace: 0s}\nauth: {enabled: false}\n" +
		"admission: {enabled: true}\nrecorder: {dir: " + logDir + "}\n" +
		"endpoints: [{id: a, url: \"" + engine.BaseURL + "\", models: [tiny]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func() (*exec.Cmd, map[string]any) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "llmgw", "server", "-c", file)
		logged, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		log := json.NewDecoder(logged)
		attrs := map[string]any{}
		for attrs["msg"] != "serving" {
			attrs = nil
			if err := log.Decode(&attrs); err != nil {
				t.Fatalf("waiting for the server: %v", err)
			}
		}
		go func() { _, _ = new(bytes.Buffer).ReadFrom(logged) }()
		return cmd, attrs
	}
	segment := filepath.Join(logDir, "00000000000000000001.rec")
	size := func() int64 {
		info, err := os.Stat(segment)
		if err != nil {
			return 0
		}
		return info.Size()
	}

	server, at := serve()
	url := "http://" + at["listen"].(string) + "/v1/chat/completions"
	var killed atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !killed.Load() {
				resp, err := http.Post(url, "application/json", strings.NewReader(`{"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}`)) //nolint:noctx // ends with the server
				if err != nil {
					continue
				}
				_, _ = new(bytes.Buffer).ReadFrom(resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	limit, every := time.NewTimer(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer every.Stop()
	for size() < 20<<10 {
		select {
		case <-every.C:
		case <-limit.C:
			t.Fatal("the log is not written while requests run")
		}
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Store(true)
	_ = server.Wait() // it was killed
	wg.Wait()

	type report struct {
		Runs              int
		Notes, Faults     []string
		Routes, Admission struct{ Recorded, Replayed, Differ int }
	}
	replay := func() (r report) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Main(t.Context(), []string{"replay", logDir, "--json"}, cli.Streams{Out: &out, Err: &errs}); code != 0 {
			t.Fatalf("exit code %d: %s\n%s", code, &errs, &out)
		}
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := replay()
	if r.Runs != 1 || r.Routes.Recorded < 20 || r.Routes.Replayed != r.Routes.Recorded || r.Admission.Replayed != r.Admission.Recorded {
		t.Errorf("after the kill: %+v", r)
	}

	next, at := serve()
	if code, body := ask(t, http.MethodPost, "http://"+at["listen"].(string)+"/v1/chat/completions", `{"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	if code, body := ask(t, http.MethodGet, "http://"+at["admin_listen"].(string)+"/debug/decisions?n=1", ""); code != http.StatusOK || !strings.Contains(body, `"picked": "a"`) {
		t.Errorf("the admin listener: %d %s", code, body)
	}
	if err := next.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = next.Wait()
	if again := replay(); again.Runs != 2 || again.Routes.Recorded != r.Routes.Recorded+1 || again.Routes.Replayed != again.Routes.Recorded ||
		again.Admission.Replayed != again.Admission.Recorded || len(again.Notes) != 1 {
		t.Errorf("after the next run: %+v, before %+v", again, r)
	}
}
