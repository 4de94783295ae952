package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/engine"
	"github.com/llmgw/llmgw/cmd/internal/bench/load"
)

// rolePrefix begins the first argument of this program when it starts itself.
const rolePrefix = "role:"

// self is this program's own file, also when "go run" has put it into a
// temporary folder.
const self = "/proc/self/exe"

// RunRole plays the role that args (without the program's name) ask for and
// reports whether they did. Programs that use this package call it first.
func RunRole(args []string) (played bool, err error) {
	if len(args) == 0 || !strings.HasPrefix(args[0], rolePrefix) {
		return false, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch role, rest := strings.TrimPrefix(args[0], rolePrefix), args[1:]; role {
	case "engines":
		return true, serveEngines(ctx, rest)
	case "reverseproxy":
		return true, serveReverseProxy(ctx, rest[0], rest[1:])
	case "load":
		return true, runLoad(ctx)
	default:
		return true, fmt.Errorf("no role %q", role)
	}
}

// serveEngines serves one engine on each address until ctx is done.
func serveEngines(ctx context.Context, addrs []string) error {
	for _, a := range addrs {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", a)
		if err != nil {
			return err
		}
		defer engine.Start(l, engine.Options{}).Close()
	}
	<-ctx.Done()
	return nil
}

// buffers is a pool as ReverseProxy wants it, so that it needs no 32 KiB of
// garbage an answer.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// serveReverseProxy is the plainest gateway in Go: httputil.ReverseProxy over
// the engines in turn, with as many idle connections as it can use.
func serveReverseProxy(ctx context.Context, addr string, engines []string) error {
	var next atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: engines[next.Add(1)%uint64(len(engines))]})
		},
		Transport: &http.Transport{
			MaxIdleConns: 10_000, MaxIdleConnsPerHost: 5000, IdleConnTimeout: 20 * time.Second, DisableCompression: true,
		},
		BufferPool: &buffers{},
	}
	s := &http.Server{Addr: addr, Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// runLoad applies the load that stands as JSON on stdin and writes what it saw
// to stdout.
func runLoad(ctx context.Context) error {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var cfg load.Config
	if err := json.Unmarshal(in, &cfg); err != nil {
		return err
	}
	res, err := load.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

// Load runs cfg in a process of its own.
func Load(ctx context.Context, cfg load.Config) (*load.Result, error) {
	in, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, rolePrefix+"load")
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	var res load.Result
	return &res, json.Unmarshal(out, &res)
}
