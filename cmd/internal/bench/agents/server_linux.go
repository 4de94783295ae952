package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"text/template"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// configuration has every setting at its default but the addresses, the store and
// the certificates, and no patience with requests that there are none of.
var configuration = template.Must(template.New("").Parse(`listen: "{{.Client}}"
admin_listen: "{{.Admin}}"
agent_listen: "{{.Agents}}"
agent_tls: {cert_file: "{{.Cert}}", key_file: "{{.Key}}", ca_file: "{{.CA}}"}
store: {dsn: "sqlite:{{.Dir}}/llmgw.db"}
shutdown: {grace: 0s}
control: {journal_interval: {{.Journal}}}
`))

// server is the process that agents dial. It keeps its addresses and its store
// over restarts.
type server struct {
	binary  string
	dir     string
	agents  string // address
	admin   string // address
	process *peer.Process
	starts  int
	client  *http.Client
}

// newServer makes a server with a store of its own below dir, and starts it.
func newServer(ctx context.Context, opts options, dir string, certs *certificates) (*server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	addrs, err := peer.FreeAddrs(ctx, 3)
	if err != nil {
		return nil, err
	}
	files, err := certs.files(dir)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = configuration.Execute(&b, map[string]any{
		"Client": addrs[0], "Admin": addrs[1], "Agents": addrs[2], "Dir": dir, "Journal": opts.journal,
		"Cert": files.cert, "Key": files.key, "CA": files.ca,
	})
	if err != nil {
		return nil, err
	}
	s := &server{binary: opts.binary, dir: dir, agents: addrs[2], admin: addrs[1], client: &http.Client{Timeout: time.Minute}}
	if err := os.WriteFile(s.config(), b.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

func (s *server) config() string { return filepath.Join(s.dir, "server.yaml") }

// start starts the process and waits until it serves.
func (s *server) start(ctx context.Context) error {
	s.starts++
	s.client.CloseIdleConnections() // of a process before
	p, err := peer.Start(peer.Command{Name: fmt.Sprintf("server-%d", s.starts), Path: s.binary, Args: []string{"server", "-c", s.config()}, Dir: s.dir})
	if err != nil {
		return err
	}
	s.process = p
	for end := time.Now().Add(30 * time.Second); ; {
		_, err := s.get(ctx, "/health")
		if err == nil {
			return nil
		}
		if p.Exited() || time.Now().After(end) || !pause(ctx, 10*time.Millisecond) {
			p.Stop()
			return fmt.Errorf("the server does not serve: %w; its output:\n%s", err, p.Log())
		}
	}
}

// end ends the process by a signal, and returns when it is gone.
func (s *server) end(sig syscall.Signal) { s.process.Signal(sig) }

// get asks the admin listener.
func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

// metrics are the samples of the server's page by name and labels, as they stand
// there.
func (s *server) metrics(ctx context.Context) (map[string]float64, error) {
	page, err := s.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, m := range sample.FindAllSubmatch(page, -1) {
		v, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %s: %w", m[0], err)
		}
		out[string(m[1])] = v
	}
	return out, nil
}

var sample = regexp.MustCompile(`(?m)^([a-z_]+(?:\{[^}]*\})?) (\S+)$`)

// profile writes a profile of the server's to a file.
func (s *server) profile(ctx context.Context, path, file string) error {
	text, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
