// Signin measures what people who sign in cost everybody else: the time of API calls
// while nobody signs in and while many do at once, in turn, against a server process of
// its own with SQLite and a simulated engine, all on the loopback interface. It says how
// much memory the server took at most, too, and how long a sign-in takes with a wrong
// password and with an address that nobody has.
//
//	go build -o /tmp/llmgw ./cmd/llmgw && go run ./cmd/internal/bench/signin -llmgw /tmp/llmgw
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// settings are what is measured, and with what.
type settings struct {
	llmgw         string
	rate, people  int // API calls a second; sign-ins at once
	rounds, pairs int // of each kind; sign-ins of each kind whose times are compared
	window        time.Duration
	config        string // more of server.yaml
}

const password = "correct horse battery staple"

func main() {
	s := settings{}
	flag.StringVar(&s.llmgw, "llmgw", "", "binary of llmgw")
	flag.IntVar(&s.rate, "rate", 200, "API calls a second")
	flag.IntVar(&s.people, "people", 200, "sign-ins at once")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds without and with sign-ins, in turn")
	flag.IntVar(&s.pairs, "pairs", 100, "sign-ins with a wrong password, and with an unknown address, one by one")
	flag.DurationVar(&s.window, "d", 20*time.Second, "time of a round")
	flag.StringVar(&s.config, "config", "", "more of server.yaml, such as 'accounts: {max_hashes: 2}'")
	flag.Parse()
	runtime.LockOSThread() // peer ends the server when this thread does
	if err := s.run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "signin:", err)
		os.Exit(1)
	}
}

// server is the process that is measured.
type server struct {
	process     *peer.Process
	base, admin string
	key         string
	peers       *api.Client
}

func (s settings) run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "llmgw-signin-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(ctx)
	var engines sync.WaitGroup
	defer engines.Wait()
	defer stop()
	at, err := startEngine(ctx, &engines)
	if err != nil {
		return err
	}
	srv, err := s.start(ctx, dir, at)
	if err != nil {
		return err
	}
	defer func() {
		srv.process.Stop()
		srv.process.Wait()
	}()
	if err := s.measure(ctx, out, srv); err != nil {
		return fmt.Errorf("%w\n%s", err, srv.process.Log())
	}
	return nil
}

// measure prints what came of all rounds.
func (s settings) measure(ctx context.Context, out io.Writer, srv *server) error {
	idle := srv.memory("VmRSS")
	table := measure.NewTable("round", "sign-ins at once", "calls", "failed", "p50", "p99", "sign-ins", "turned away")
	p99 := [2]measure.Rounds{{}, {}}
	for round := range s.rounds {
		for i, people := range []int{0, s.people} {
			got := s.round(ctx, srv, people)
			p50, _ := got.calls.Quantile(0.5)
			q99, ok := got.calls.Quantile(0.99)
			if !ok {
				return errors.New("no call was answered")
			}
			p99[i][round] = float64(q99) / float64(time.Millisecond)
			table.Row(fmt.Sprint(round+1), fmt.Sprint(people), fmt.Sprint(got.calls.Count()), fmt.Sprint(got.failed.Load()), ms(p50), ms(q99),
				fmt.Sprint(got.hashed.Load()), fmt.Sprint(got.refused.Load()))
		}
	}
	fmt.Fprintln(out, table)
	added := p99[1].Minus(p99[0])
	fmt.Fprintf(out, "p99 with sign-ins less that without, of each round: %+v ms\n", added)
	fmt.Fprintf(out, "memory of the server: %d MiB before, %d MiB at most\n", idle>>20, srv.memory("VmHWM")>>20)
	return s.compare(ctx, out, srv)
}

// result is what came of a round.
type result struct {
	mu              sync.Mutex
	calls           measure.Histogram // guarded by mu
	failed          atomic.Int64
	hashed, refused atomic.Int64 // sign-ins that were looked at, and turned away as too many
}

// round calls the API at an even rate, whatever comes of it, while so many people sign
// in again and again, each time with an address that nobody has: what is computed then is
// what is computed for one that somebody has. Who is turned away comes again when they
// were told to.
func (s settings) round(ctx context.Context, srv *server, people int) *result {
	got := new(result)
	crowded, leave := context.WithCancel(ctx)
	var crowd, calls sync.WaitGroup
	var number atomic.Int64
	for range people {
		crowd.Go(func() {
			p := newPerson(srv.base)
			for crowded.Err() == nil {
				status, err := p.signIn(crowded, fmt.Sprintf("nobody%d-%d@example.org", time.Now().UnixNano(), number.Add(1)), password)
				switch {
				case err != nil:
				case status == http.StatusForbidden:
					got.hashed.Add(1)
				default:
					got.refused.Add(1)
					p.wait(crowded)
				}
			}
			p.client.CloseIdleConnections()
		})
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	every := time.Second / time.Duration(s.rate)
	begin := time.Now().Add(2 * time.Second) // until the crowd is there
	for i := range int(s.window / every) {
		due := begin.Add(time.Duration(i) * every)
		time.Sleep(time.Until(due))
		calls.Go(func() {
			if err := srv.call(ctx, client); err != nil {
				got.failed.Add(1)
				return
			}
			took := time.Since(due)
			got.mu.Lock()
			got.calls.Record(took)
			got.mu.Unlock()
		})
	}
	calls.Wait()
	leave()
	crowd.Wait()
	return got
}

// compare says how long sign-ins take that fail for one reason or the other, in turn.
func (s settings) compare(ctx context.Context, out io.Writer, srv *server) error {
	const each = 4 // an address has five attempts without a wait
	p := newPerson(srv.base)
	defer p.client.CloseIdleConnections()
	var wrong, unknown measure.Histogram
	for i := range s.pairs {
		address := fmt.Sprintf("known%d@example.org", i/each)
		if i%each == 0 {
			if err := p.signUp(ctx, address); err != nil {
				return err
			}
			if _, err := srv.peers.Users.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: address}); err != nil {
				return err
			}
		}
		for _, t := range []struct {
			address string
			h       *measure.Histogram
		}{{address, &wrong}, {fmt.Sprintf("unknown%d@example.org", i), &unknown}} {
			begin := time.Now()
			status, err := p.signIn(ctx, t.address, password+" not")
			if err != nil || status != http.StatusForbidden {
				return fmt.Errorf("sign in as %s: %d, %w", t.address, status, err)
			}
			t.h.Record(time.Since(begin))
		}
	}
	for _, t := range []struct {
		name string
		h    *measure.Histogram
	}{{"a wrong password", &wrong}, {"an unknown address", &unknown}} {
		p50, _ := t.h.Quantile(0.5)
		p90, _ := t.h.Quantile(0.9)
		fmt.Fprintf(out, "a sign-in with %s: p50 %s, p90 %s of %d\n", t.name, ms(p50), ms(p90), t.h.Count())
	}
	return nil
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// call asks for a short answer.
func (srv *server) call(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.base+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+srv.key)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// memory reads a size of the process from /proc, in bytes.
func (srv *server) memory(field string) (bytes int64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", srv.process.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			_, _ = fmt.Sscanf(rest, "%d", &bytes)
		}
	}
	return bytes << 10
}

// person is a browser.
type person struct {
	base   string
	client *http.Client
	token  string        // of its forms
	again  time.Duration // when to come again, by the last answer
}

// wait waits for as long as the last answer said, and up to as long again: people who
// are turned away together do not come back together.
func (p *person) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(p.again + rand.N(p.again)): //nolint:gosec // no secret
	}
}

func newPerson(base string) *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it never fails
	}
	return &person{base: base, client: &http.Client{
		Jar: jar, Transport: &http.Transport{}, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

var tokenField = regexp.MustCompile(`name="form_token" value="([^"]+)"`)

// send fills a form in, and returns the status.
func (p *person) send(ctx context.Context, path string, form url.Values) (int, error) {
	if p.token == "" {
		_, page, err := p.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return 0, err
		}
		m := tokenField.FindStringSubmatch(page)
		if m == nil {
			return 0, fmt.Errorf("%s has no form", path)
		}
		p.token = m[1]
	}
	form.Set("form_token", p.token)
	status, _, err := p.do(ctx, http.MethodPost, path, form)
	return status, err
}

func (p *person) do(ctx context.Context, method, path string, form url.Values) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	p.again = max(time.Second, time.Duration(seconds)*time.Second)
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func (p *person) signIn(ctx context.Context, address, password string) (int, error) {
	return p.send(ctx, "/login", url.Values{"address": {address}, "password": {password}})
}

func (p *person) signUp(ctx context.Context, address string) error {
	status, err := p.send(ctx, "/signup", url.Values{"address": {address}, "password": {password}})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("sign up as %s: status %d", address, status)
	}
	return err
}

// startEngine serves a simulated engine that takes no time.
func startEngine(ctx context.Context, wg *sync.WaitGroup) (address string, err error) {
	cfg := sim.InstantConfig()
	cfg.Model = "m"
	engine, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		return "", err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", errors.Join(err, engine.Close())
	}
	wg.Go(func() { _ = engine.Serve(ctx, l) })
	return l.Addr().String(), nil
}

// freePort is an address that nothing has at the moment.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start runs the server, and waits until it serves.
func (s settings) start(ctx context.Context, dir, engine string) (*server, error) {
	client, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "server.yaml")
	text := fmt.Sprintf("listen: %s\nadmin_listen: %s\nstore: {dsn: 'sqlite:%s'}\nlog: {level: warn}\nshutdown: {grace: 0s, drain: 5s}\nmodels: [{name: m}]\nendpoints: [{id: e, url: 'http://%s', models: [m]}]\n%s\n",
		client, admin, filepath.Join(dir, "llmgw.db"), engine, s.config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	srv := &server{base: "http://" + client, admin: "http://" + admin}
	if srv.process, err = peer.Start(peer.Command{Name: "server", Dir: dir, Path: s.llmgw, Args: []string{"server", "-c", file}}); err != nil {
		return nil, err
	}
	if srv.peers, err = api.NewClient(api.ClientConfig{URL: srv.admin}); err != nil {
		return nil, err
	}
	for {
		made, err := srv.peers.Keys.CreateKey(ctx, &apipb.CreateKeyRequest{Name: "bench"})
		if err == nil {
			srv.key = made.GetSecret()
			if err := srv.call(ctx, http.DefaultClient); err == nil {
				return srv, nil
			}
		}
		if srv.process.Exited() {
			return nil, fmt.Errorf("the server did not start: %s", srv.process.Log())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
