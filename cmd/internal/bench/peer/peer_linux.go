package peer

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"text/template"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

var (
	//go:embed nginx.conf
	nginxConf string
	//go:embed haproxy.cfg
	haproxyConf string
	//go:embed llmgw.yaml
	llmgwConf string
)

// ErrNotInstalled says that a peer's program is not on this machine.
var ErrNotInstalled = errors.New("not installed")

// Peer is what a load can be sent to.
type Peer struct {
	Name    string
	Addrs   []string // loopback addresses; one but for the engines themselves
	Process *Process
	Admin   string // llmgw: address of the admin listener
	Metrics string // llmgw: address of the metrics listener
	Key     string // llmgw: what it is called with; empty: no key
}

// settings fill the configuration files.
type settings struct {
	Dir, Addr, Admin, Metrics, Model string
	Workers                          int
	Root                             bool
	Engines                          []string
}

// Engines starts n fake engines in one process.
func Engines(ctx context.Context, dir string, n int) (*Peer, error) {
	addrs, err := FreeAddrs(ctx, n)
	if err != nil {
		return nil, err
	}
	p, err := Start(Command{Name: "engines", Path: self, Args: append([]string{rolePrefix + "engines"}, addrs...), Dir: dir})
	if err != nil {
		return nil, err
	}
	return ready(ctx, &Peer{Name: "direct", Addrs: addrs, Process: p})
}

// ReverseProxy starts Go's httputil.ReverseProxy in front of the engines.
func ReverseProxy(ctx context.Context, dir string, engines []string) (*Peer, error) {
	addrs, err := FreeAddrs(ctx, 1)
	if err != nil {
		return nil, err
	}
	args := append([]string{rolePrefix + "reverseproxy", addrs[0]}, engines...)
	p, err := Start(Command{Name: "reverseproxy", Path: self, Args: args, Dir: dir})
	if err != nil {
		return nil, err
	}
	return ready(ctx, &Peer{Name: "reverseproxy", Addrs: addrs, Process: p})
}

// Nginx starts nginx in front of the engines: keep-alive on both sides, answers
// unbuffered, a worker a core. Without nginx the error is [ErrNotInstalled].
func Nginx(ctx context.Context, dir string, engines []string) (*Peer, error) {
	return configured(ctx, "nginx", "nginx", nginxConf, dir, "", engines, func(conf string) []string {
		return []string{"-e", "stderr", "-p", dir, "-c", conf, "-g", "daemon off;"}
	})
}

// HAProxy starts HAProxy in front of the engines: keep-alive on both sides, a
// thread a core. Without it the error is [ErrNotInstalled].
func HAProxy(ctx context.Context, dir string, engines []string) (*Peer, error) {
	return configured(ctx, "haproxy", "haproxy", haproxyConf, dir, "", engines, func(conf string) []string {
		return []string{"-db", "-f", conf}
	})
}

// Gateway starts "llmgw server" from the binary at path, with every setting at
// its default but the addresses. key is what it is called with, if it asks for one.
func Gateway(ctx context.Context, name, path, dir, key string, engines []string) (*Peer, error) {
	return configured(ctx, name, path, llmgwConf, dir, key, engines, func(conf string) []string {
		return []string{"server", "-c", conf}
	})
}

// BuildGateway builds cmd/llmgw of the module that the working directory is in
// and returns the binary's path.
func BuildGateway(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "llmgw.bin")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/llmgw/llmgw/cmd/llmgw").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build llmgw: %w\n%s", err, out)
	}
	return path, nil
}

// configured writes the configuration and starts the program with it.
func configured(ctx context.Context, name, program, conf, dir, key string, engines []string, args func(conf string) []string) (*Peer, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, ErrNotInstalled)
	}
	addrs, err := FreeAddrs(ctx, 3)
	if err != nil {
		return nil, err
	}
	peer := &Peer{Name: name, Addrs: addrs[:1], Key: key}
	if conf == llmgwConf {
		peer.Admin, peer.Metrics = addrs[1], addrs[2]
	}
	text, err := template.New(name).Parse(conf)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = text.Execute(&b, settings{
		Dir: dir, Addr: addrs[0], Admin: addrs[1], Metrics: addrs[2], Model: wire.Model,
		Workers: runtime.NumCPU(), Root: os.Getuid() == 0, Engines: engines,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name+".conf")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return nil, err
	}
	if peer.Process, err = Start(Command{Name: name, Path: path, Args: args(file), Dir: dir}); err != nil {
		return nil, err
	}
	return ready(ctx, peer)
}

// ready waits up to 15 s until p answers a call as the engine does.
func ready(ctx context.Context, p *Peer) (*Peer, error) {
	cfg := load.Config{
		Addrs: p.Addrs, Key: p.Key, Mix: []load.Shape{{PromptBytes: 100, Prompts: 1}}, Callers: len(p.Addrs),
		Window: time.Millisecond, Timeout: 2 * time.Second,
	}
	res := &load.Result{}
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end) && !p.Process.Exited() && ctx.Err() == nil; {
		var err error
		if res, err = load.Run(ctx, cfg); err != nil {
			p.Process.Stop()
			return nil, err
		}
		if res.FailedTotal() == 0 && res.Whole >= int64(len(p.Addrs)) {
			return p, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	err := p.Process.failed(fmt.Errorf("gave no good answer within 15 s: %v", res.Failed))
	p.Process.Stop()
	return nil, errors.Join(err, ctx.Err())
}

// FreeAddrs returns n loopback addresses with ports that nobody listened on a
// moment ago.
func FreeAddrs(ctx context.Context, n int) ([]string, error) {
	var out []string
	for range n {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all held until the last is chosen: no port twice
		out = append(out, l.Addr().String())
	}
	return out, nil
}
