// Command stand starts what the client matrix talks to, runs a command, and ends
// what it started:
//
//	stand -llmgw PATH -logs DIR -- COMMAND…
//
// It starts `llmgw demo`, a scripted engine (package engine), `llmgw server` in front
// of that engine, and an agent with simulated cards for the server's models that
// sleep; all on free ports. It waits until each would serve a request. The command
// finds them by its environment:
//
//	LLMGW_DEMO, LLMGW_DEMO_MODEL, LLMGW_DEMO_KEY  the demo's base URL, its model and its key
//	LLMGW_URL, LLMGW_KEY                          the server's base URL, and a key without limits
//	LLMGW_ADMIN                                   the server's admin listener, for keys with limits
//	LLMGW_ENGINE                                  the scripted engine, for its books
//	LLMGW_DOOR                                    another way to the server, with books of its own
//
// The server's models are called CLIENT/BEHAVIOUR, each with an endpoint of its
// own, so that no cell of the matrix meets another's breaker. CLIENT/asleep has none:
// it is loaded when it is asked for, by a simulated engine.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/ci/clients/engine"
	"github.com/llmgw/llmgw/ci/clients/keys"
)

// clients are the first halves of model names: one per column of the matrix.
var clients = []string{ //nolint:gochecknoglobals // constant table
	"openai-go", "openai-node", "openai-python", "anthropic-go", "anthropic-node", "anthropic-python",
	"vercel", "langchain-js", "langchain-python", "codex", "claude-code",
}

// sleeping are those of them for which a model sleeps.
var sleeping = clients[:3] //nolint:gochecknoglobals // constant table

// mark is in the environment of the agent and of all that it starts, which outlives it.
var mark = "LLMGW_STAND=" + rand.Text() //nolint:gochecknoglobals // of this run

// patience bounds each start and each end.
const patience = 20 * time.Second

func main() {
	llmgw := flag.String("llmgw", "", "the binary under test")
	logs := flag.String("logs", "", "folder for the logs of what is started")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *llmgw, *logs, flag.Args())
	stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(max(exit.ExitCode(), 1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, llmgw, logs string, command []string) (err error) {
	if len(command) == 0 || llmgw == "" || logs == "" {
		return errors.New("usage: stand -llmgw PATH -logs DIR -- COMMAND…")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	eng := engine.New()
	scripted := &http.Server{Handler: eng}
	go func() { _ = scripted.Serve(l) }() // until the Close below
	defer scripted.Close()
	engineURL := "http://" + l.Addr().String()

	var at struct {
		BaseURL string   `json:"base_url"`
		Models  []string `json:"models"`
		APIKey  string   `json:"api_key"`
	}
	demo, err := start(logs, llmgw, []string{"demo", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		func(line []byte) bool {
			return json.Unmarshal(line, &at) == nil && at.BaseURL != "" && len(at.Models) > 0
		})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, demo.end()) }()
	agents, err := freeAddress()
	if err != nil {
		return err
	}
	config := filepath.Join(logs, "server.yaml")
	if err := os.WriteFile(config, serverConfig(engineURL, filepath.Join(logs, "llmgw.db"), agents), 0o600); err != nil {
		return err
	}
	var log struct {
		Message string `json:"msg"`
		Listen  string `json:"listen"`
		Admin   string `json:"admin_listen"`
	}
	server, err := start(logs, llmgw, []string{"server", "-c", config},
		func(line []byte) bool { return json.Unmarshal(line, &log) == nil && log.Message == "serving" })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	agent, err := startAgent(logs, llmgw, agents)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, agent.end())
		endMarked()
	}()
	if err := errors.Join(demo.wait(), server.wait(), agent.wait()); err != nil {
		return err
	}
	serverURL := "http://" + log.Listen
	if err := ready(ctx, serverURL+"/ready"); err != nil {
		return err
	}

	key, err := keys.Create(ctx, "http://"+log.Admin, `{"name": "matrix"}`)
	if err != nil {
		return err
	}

	gateway, err := url.Parse(serverURL)
	if err != nil {
		return err
	}
	if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	door := &http.Server{Handler: eng.Door(gateway)}
	go func() { _ = door.Serve(l) }() // until the Close below
	defer door.Close()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "LLMGW_DEMO="+at.BaseURL, "LLMGW_DEMO_MODEL="+at.Models[0], "LLMGW_DEMO_KEY="+at.APIKey,
		"LLMGW_URL="+serverURL, "LLMGW_KEY="+key, "LLMGW_ADMIN=http://"+log.Admin, "LLMGW_ENGINE="+engineURL, "LLMGW_DOOR=http://"+l.Addr().String())
	return cmd.Run()
}

// serverConfig is a server in front of the scripted engine. Every model is
// renamed on the way. What is plain has a price: a millionth for each token that
// comes out, so that budgets have something to count.
//
// A request waits for a second for a model that sleeps, and each takes two to load: a
// client is told to come again, and does so by itself.
func serverConfig(engineURL, store, agents string) []byte {
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nlog: {format: json}\n" +
		"shutdown: {grace: 0s, drain: 2s}\nstore: {dsn: \"sqlite:" + store + "\"}\n" +
		"agent_listen: " + agents + "\non_demand: {wait: 1s}\n" +
		"endpoints:\n")
	for _, c := range clients {
		for _, how := range engine.Behaviours() {
			fmt.Fprintf(&b, "  - {id: %s.%s, url: %q, models: [{name: %s/%s, upstream: %s}]}\n",
				c, how, engineURL+"/"+c+"/"+how, c, how, engine.Model)
		}
	}
	b.WriteString("models:\n")
	for _, c := range clients {
		fmt.Fprintf(&b, "  - {name: %s/plain, prices: [{output: 1}]}\n", c)
	}
	for _, c := range sleeping {
		fmt.Fprintf(&b, "  - {name: %s/asleep, source: sim/asleep, profile: {engine: sim, options: {load_time: 2s}}, scaling: {max: 1}}\n", c)
	}
	return []byte(b.String())
}

// freeAddress is one of this machine that nobody listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startAgent starts the agent of a node with a card for each model that sleeps.
func startAgent(logs, llmgw, server string) (*process, error) {
	cards, config := filepath.Join(logs, "cards.yaml"), filepath.Join(logs, "agent.yaml")
	for name, text := range map[string]string{
		cards: fmt.Sprintf("host: {hostname: stand}\ngpus: [{count: %d, name: Simulated, memory_bytes: 85899345920}]\n", len(sleeping)),
		config: fmt.Sprintf("node: stand\nservers: [\"http://%s\"]\nstate_dir: %q\naddress: 127.0.0.1\nengines: {sim: %q}\nlog: {format: json}\n"+
			"process: {hand_on: [PATH, HOME, LLMGW_STAND]}\nplugins: {environment: [PATH, HOME, LLMGW_STAND]}\nhardware: {simulated: %q}\n",
			server, filepath.Join(logs, "agent"), llmgw, cards),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return start(logs, llmgw, []string{"agent", "-c", config}, func(line []byte) bool { return bytes.Contains(line, []byte("welcomes this node")) }, mark)
}

// endMarked ends the engines, which nobody is there to end any more.
func endMarked() {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range found {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(mark)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// process is one that was started here.
type process struct {
	name  string
	cmd   *exec.Cmd
	ready chan struct{} // closed when it has printed what was waited for
	done  chan struct{} // closed when it has ended
	err   error         // set before done is closed
}

// start runs llmgw with args until ready says so of a line that it printed. All
// that it prints goes to a log, too. env is added to the environment.
func start(logs, llmgw string, args []string, ready func(line []byte) bool, env ...string) (*process, error) {
	p := &process{name: "llmgw " + args[0], cmd: exec.Command(llmgw, args...), ready: make(chan struct{}), done: make(chan struct{})}
	file, err := os.Create(filepath.Join(logs, args[0]+".log"))
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.Env = append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close(), r.Close(), w.Close())
	}
	_ = w.Close()
	go func() {
		defer close(p.done)
		in := bufio.NewReader(io.TeeReader(r, file))
		for found := false; ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				break
			}
			if !found && ready(line) {
				found = true
				close(p.ready)
			}
		}
		p.err = p.cmd.Wait()
		_ = errors.Join(r.Close(), file.Close())
	}()
	return p, nil
}

// wait waits until the process is ready.
func (p *process) wait() error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended before it was ready; its log says why", p.name)
	case <-time.After(patience):
		return fmt.Errorf("%s was not ready after %v; its log says why", p.name, patience)
	}
}

// end asks the process to end and waits for it. Ending is part of the test: a
// request that still runs would hold it.
func (p *process) end() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	<-p.done
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// ready waits until url answers 200.
func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s answers %s", url, resp.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
