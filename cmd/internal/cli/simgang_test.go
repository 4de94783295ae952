package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// job is a command whose log can be waited for.
type job struct {
	*exec.Cmd
	log *log
}

// launch starts llmgw; it is killed when the test ends.
func launch(t *testing.T, env []string, args ...string) job {
	t.Helper()
	p := job{exec.CommandContext(t.Context(), "llmgw", args...), &log{news: make(chan struct{}, 1)}}
	p.Env = append(os.Environ(), env...)
	p.Stdout, p.Stderr = p.log, p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait() // again, where the test did
		t.Logf("llmgw %s\n%s", strings.Join(args, " "), p.log)
	})
	return p
}

// ends waits for the end and returns the exit code.
func (p job) ends(t *testing.T) int {
	t.Helper()
	if err := p.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return p.ProcessState.ExitCode()
}

// log is what a process has written.
type log struct {
	mu   sync.Mutex
	text strings.Builder
	news chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.news <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns when the log has text.
func (l *log) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(l.String(), text) {
		select {
		case <-l.news:
		case <-t.Context().Done():
			t.Fatalf("%q is not in the log", text)
		}
	}
}

// freeAddress is one of the loopback where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func refuses(t *testing.T, address string) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s does not refuse: %v", address, err)
	}
}

// An engine of three processes: the leader refuses requests until both workers
// have joined, who serve nothing; the loss of one ends all.
func TestSimGang(t *testing.T) {
	http, rendezvous := freeAddress(t), freeAddress(t)
	rank := func(i int, more ...string) job {
		return launch(t, nil, append([]string{
			"sim", "serve", "--listen", http, "--model", "tiny", "--load-time", "8ms", "--replica", "tiny-1", "--generation", "7",
			"--ranks", "3", "--rank", fmt.Sprint(i), "--rendezvous", rendezvous,
		}, more...)...)
	}
	leader := rank(0)
	leader.log.await(t, "Waiting for the other ranks")
	refuses(t, http)

	one := rank(1)
	one.log.await(t, "Joined; waiting for the other ranks")
	refuses(t, http)
	old := rank(2, "--generation", "6")
	if code := old.ends(t); code != 1 || !strings.Contains(old.log.String(), "refused by the leader: this is generation 7, not 6") {
		t.Errorf("a rank of the last generation ends with %d", code)
	}
	refuses(t, http)

	two := rank(2)
	leader.log.await(t, "A simulated engine serves tiny at http://"+http)
	if code, body := ask(t, "GET", "http://"+http+"/v1/models", ""); code != 200 || !strings.Contains(body, `"tiny"`) {
		t.Errorf("the leader answers %d %s", code, body)
	}
	for _, w := range []job{one, two} {
		w.log.await(t, "it serves nothing")
		if n := listening(t, w.Process.Pid); n != 0 {
			t.Errorf("a worker listens on %d sockets", n)
		}
	}
	if n := listening(t, leader.Process.Pid); n != 2 && runtime.GOOS == "linux" {
		t.Errorf("the leader listens on %d sockets; want 2", n)
	}

	if err := one.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := leader.ends(t); code != 1 || !strings.Contains(leader.log.String(), "a rank is lost: rank 1") {
		t.Errorf("the leader ends with %d", code)
	}
	if code := two.ends(t); code != 1 || !strings.Contains(two.log.String(), "a rank is lost: the leader") {
		t.Errorf("rank 2 ends with %d", code)
	}
	refuses(t, http)
}

// listening is on how many TCP sockets a process listens; 0 where that cannot be
// found out.
func listening(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	inodes := make(map[string]bool)
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && inodes[f[9]] {
				n++
			}
		}
	}
	return n
}

// An engine that ignores SIGTERM goes on answering until it does no more, and
// the key comes by the environment.
func TestSimSignalsAndKey(t *testing.T) {
	address := freeAddress(t)
	p := launch(t, []string{"LLMGW_SIM_API_KEY=sesame"}, "sim", "--listen", address, "--faults", "ignore_term=true", "--fault-control")
	p.log.await(t, "serves")
	if code, _ := ask(t, http.MethodGet, "http://"+address+"/v1/models", ""); code != 401 {
		t.Errorf("without the key: %d", code)
	}
	if code, _ := askWith(t, "sesame", http.MethodGet, "http://"+address+"/v1/models", ""); code != 200 {
		t.Errorf("with the key: %d", code)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.log.await(t, "[shutdown] ignored")
	if code, _ := ask(t, http.MethodPut, "http://"+address+"/sim/faults", ""); code != 204 {
		t.Errorf("after SIGTERM: %d", code)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.ends(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

func TestSimGangUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--rank", "1"}, "say how many with --ranks"},
		{[]string{"--ranks", "2"}, "--ranks needs --rendezvous HOST:PORT"},
		{[]string{"--ranks", "0"}, "want 1 or more"},
		{[]string{"--ranks", "2", "--rank", "2", "--rendezvous", "127.0.0.1:1"}, "rank 2 of 2"},
		{[]string{"--ranks", "2", "--rendezvous", "127.0.0.1:1", "--rendezvous-timeout", "0s"}, "is not positive"},
		{[]string{"--ranks", "2", "--rank", "1", "--rendezvous", "127.0.0.1:1", "--rendezvous-timeout", "1ms"}, "the leader was not reached"},
		{[]string{"--scheduling-policy", "lottery"}, "want fcfs or priority"},
		{[]string{"--listen", "127.0.0.1:0", "--faults", "fail_load=memory"}, "CUDA out of memory"},
		{[]string{"--listen", "127.0.0.1:0", "--faults", "crash_after=1ms"}, "crashed"},
	} {
		var errs strings.Builder
		code := cli.Main(context.Background(), append([]string{"sim", "serve"}, tt.args...), cli.Streams{Out: t.Output(), Err: &errs})
		if code != 1 || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%v: exit code %d, %s; want %s", tt.args, code, &errs, tt.want)
		}
	}
}
