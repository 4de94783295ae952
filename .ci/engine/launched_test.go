package engine_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
	"github.com/llmgw/llmgw/engines/llamacpp"
	launcher "github.com/llmgw/llmgw/engines/process" // process is a type here
)

// The engine's own executable is started by the command that its adapter gives,
// is ready when the launch says so, asks for the secret that it got by file, tells
// its load, serves behind the router, and ends by its signal alone.
func TestLaunched(t *testing.T) {
	if *server == "" {
		t.Skip("only llama.cpp's own executable is launched: -server")
	}
	port := freePort(t)
	shard, dir := launch(t, port)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)

	// The secret is where it should be, and nowhere else.
	if info, err := os.Stat(filepath.Join(dir, "api-key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret's file: %v, %v; want it for its owner alone", info, err)
	}
	processes := shard.Status().Processes
	for _, file := range []string{"cmdline", "environ"} {
		shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", processes[len(processes)-1].PID, file))
		if err != nil || strings.Contains(string(shown), apiKey) {
			t.Errorf("%s of the engine: %q, %v; want no secret in it", file, shown, err)
		}
	}
	const prompt = `{"model":"tiny","prompt":"the time","max_tokens":4}`
	if a := post(t, url+"/v1/completions", "", prompt); a.status != http.StatusUnauthorized {
		t.Errorf("without the secret: %v; want 401", a)
	}
	if a := post(t, url+"/v1/completions", apiKey, prompt); a.status != http.StatusOK {
		t.Errorf("with the secret: %v; want 200", a)
	}

	contract := llamacpp.Metrics()
	load, err := exposition.Read([]byte(get(t, url+contract.Path, apiKey).body), contract)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]engines.Reading{"running": load.Running, "waiting": load.Waiting, "prefix query tokens": load.PrefixQueryTokens} {
		if _, known := r.Get(); !known {
			t.Errorf("%s is unknown, of a page of the engine's own", name)
		}
	}

	r := newRouter(t, place{id: "launched", url: url})
	r.reads(t)
	if a := post(t, r.client+"/v1/completions", "", `{"model":"words","prompt":"the time","max_tokens":4}`); a.status != http.StatusOK {
		t.Errorf("behind the router: %v; want 200", a)
	}

	if err := shard.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := shard.Status()
	if status.State != launcher.StateStopped || len(status.Ended) != 1 || len(status.Ended[0].Killed) > 0 {
		t.Errorf("it ended as %+v; want it stopped by its signal, nothing killed", status)
	}
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("its port is not free: %v", err)
	}
	_ = ln.Close()
	t.Logf("ended %v after SIGTERM", status.Ended)
}

// launch starts the executable as its adapter says, and waits until it is ready.
func launch(t *testing.T, port int) (shard *launcher.Shard, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "shard")
	l, err := llamacpp.Adapter{}.Launch(t.Context(), engines.Shard{
		Profile: engines.Profile{
			Engine: engines.LlamaCPP, Executable: *server, Model: *model, ServedNames: []string{upstream},
			CPU: true, ContextTokens: contextLength, MaxRunning: slots, LoadTimeout: time.Minute,
			ExtraArgs: []string{"--threads", "1", "--poll", "0"}, // spares a busy machine
		},
		Replica: "tiny-1", Generation: 1, Dir: dir, Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: port}, Keyed: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := launcher.DefaultConfig()
	cfg.Poll, cfg.ProbeEvery = 20*time.Millisecond, 20*time.Millisecond
	runner, err := launcher.New(cfg, launcher.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	shard, err = runner.Start(t.Context(), launcher.Spec{ID: "tiny-1.0", Generation: 1, Dir: dir, Launch: l, Secret: apiKey, Ports: []int{port}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shard.Stop(context.Background()); err != nil { // the test's own has ended
			t.Error(err)
		}
	})
	begin := time.Now()
	status, err := shard.Wait(t.Context(), launcher.StateReady)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v after %v, by its probe: %s", status.State, time.Since(begin), status.Probe)
	return shard, dir
}

// The engine's own help knows every flag that its adapter passes.
func TestChecked(t *testing.T) {
	if *server == "" {
		t.Skip("only llama.cpp's own executable is checked: -server")
	}
	out, err := exec.CommandContext(t.Context(), *llmgw, "ctl", "engine-check", string(engines.LlamaCPP), "--exe", *server).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	_, text, _ := net.SplitHostPort(ln.Addr().String())
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
