package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"text/template"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// self is this program, which is llmgw too, see main.
const self = "/proc/self/exe"

// configuration is what all routers have. Deadlines are short so that engines
// that hang cost little time, and Redis may take long, since the machine may be
// busy and one that is slow counts as away.
var configuration = template.Must(template.New("").Parse(`auth: {enabled: true}
store: {dsn: "{{.DSN}}"}
limits: {redis_url: "redis://{{.Redis}}", redis_timeout: 1s}
usage: {buffer_rows: {{.BufferRows}}, batch_rows: {{.BatchRows}}}
shutdown: {grace: 0s, drain: 10s}
router:
  timeouts: {response_header: {{.Patience}}}
  failure_threshold: 1000000
models:
  - {name: m, context_tokens: 4096, prices: [{input: 1, output: 1}]}
endpoints:
  - {id: e, url: "{{.Engine}}", models: [m], max_running: 4096}
`))

// router is one process. It has an address of its own, so that what a client was
// told came from no other.
type router struct {
	process *peer.Process
	addr    string
	admin   string
	client  *http.Client
	killed  atomic.Pointer[time.Time] // nil: it was not
}

// routers starts and ends processes.
type routers struct {
	dir     string
	started int
	at      []atomic.Pointer[router] // that live, or are about to
	ended   []*router                // that were killed
}

func newRouters(dir string, n int, data map[string]any) (*routers, error) {
	var b bytes.Buffer
	if err := configuration.Execute(&b, data); err != nil {
		return nil, err
	}
	r := &routers{dir: dir, at: make([]atomic.Pointer[router], n)}
	return r, os.WriteFile(r.config(), b.Bytes(), 0o600)
}

func (r *routers) config() string { return filepath.Join(r.dir, "server.yaml") }

// start starts the i-th and does not wait for it.
func (r *routers) start(ctx context.Context, i int) error {
	addrs, err := peer.FreeAddrs(ctx, 2)
	if err != nil {
		return err
	}
	r.started++
	p, err := peer.Start(peer.Command{
		Name: fmt.Sprintf("router-%d", r.started), Path: self, Args: []string{"server", "-c", r.config()}, Dir: r.dir,
		Env: []string{"LLMGW_LISTEN=" + addrs[0], "LLMGW_ADMIN_LISTEN=" + addrs[1]},
	})
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}
	r.at[i].Store(&router{process: p, addr: addrs[0], admin: addrs[1], client: &http.Client{Transport: transport, Timeout: 30 * time.Second}})
	return nil
}

// ready waits until all that are started serve.
func (r *routers) ready(ctx context.Context) error {
	for i := range r.at {
		at := r.at[i].Load()
		for end := time.Now().Add(60 * time.Second); ; {
			status, _, err := at.get(ctx, "/ready")
			if status == http.StatusOK {
				break
			}
			if at.process.Exited() || time.Now().After(end) || !pause(ctx, 20*time.Millisecond) {
				return fmt.Errorf("a router does not become ready: status %d, %w; its output:\n%s", status, err, at.process.Log())
			}
		}
	}
	return nil
}

// get asks the admin listener.
func (r *router) get(ctx context.Context, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// kill ends the i-th as a crash does. It is not replaced.
func (r *routers) kill(i int) {
	at := r.at[i].Load()
	now := time.Now()
	at.killed.Store(&now)
	at.process.Signal(syscall.SIGKILL)
	at.client.CloseIdleConnections()
	r.ended = append(r.ended, at)
}

// stop ends all in good order.
func (r *routers) stop() error {
	for i := range r.at {
		at := r.at[i].Load()
		if at == nil {
			continue
		}
		if !at.process.Signal(syscall.SIGTERM) {
			return fmt.Errorf("a router did not end well; its output:\n%s", at.process.Log())
		}
	}
	return nil
}
