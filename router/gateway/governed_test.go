package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/limit/shared"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

// governed is a fleet whose callers have keys, kept in a file of SQLite.
type governed struct {
	*fleet
	store   *outage
	auth    *auth.Authenticator
	limiter *limit.Limiter
	keys    []string // texts of keys, which nothing may show
	usage   func()   // ends the recorder, which writes what it has
}

// outage is a store that can be away.
type outage struct {
	*sqlite.Store
	away atomic.Bool
}

var errAway = errors.Join(storage.ErrUnavailable, errors.New("pulled out"))

func (s *outage) KeyByHash(ctx context.Context, h storage.KeyHash) (storage.Key, error) {
	if s.away.Load() {
		return storage.Key{}, errAway
	}
	return s.Store.KeyByHash(ctx, h)
}

func (s *outage) InsertUsage(ctx context.Context, rows []storage.Usage) (int, error) {
	if s.away.Load() {
		return 0, errAway
	}
	return s.Store.InsertUsage(ctx, rows)
}

func (s *outage) GrantBudget(ctx context.Context, r storage.GrantRequest) (storage.Grant, error) {
	if s.away.Load() {
		return storage.Grant{}, errAway
	}
	return s.Store.GrantBudget(ctx, r)
}

func newGoverned(t testing.TB, cfg gateway.Config, keep func(*usage.Config), change ...func(*gateway.Deps)) *governed {
	t.Helper()
	files := sqlite.DefaultConfig()
	files.Path = sqlitetest.Database(t)
	st, err := sqlite.New(files, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := &governed{store: &outage{Store: st}}
	kept := usage.DefaultConfig()
	kept.FlushInterval = 10 * time.Millisecond
	if keep != nil {
		keep(&kept)
	}
	patient := auth.DefaultConfig()
	patient.LookupTimeout = time.Minute // a busy machine is no fault
	g.fleet = newFleet(t, cfg, append([]func(*gateway.Deps){func(d *gateway.Deps) {
		if g.auth, err = auth.New(patient, auth.Deps{Keys: g.store, Logger: d.Logger, Registerer: d.Registerer}); err != nil {
			t.Fatal(err)
		}
		g.limiter, err = limit.New(limit.DefaultConfig(), limit.Deps{Source: shared.Slices(g.store, "r1"), Registerer: d.Registerer})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := usage.New(kept, usage.Deps{Log: g.store, Logger: d.Logger, Registerer: d.Registerer})
		if err != nil {
			t.Fatal(err)
		}
		d.Charger, d.Authenticator, d.Limiter, d.Usage, d.RouterID = nil, g.auth, g.limiter, rec, "r1"
		stopAuth, stopUsage := running(t, g.auth.Run), running(t, rec.Run)
		g.usage = stopUsage
		t.Cleanup(func() {
			stopAuth()
			stopUsage()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}}, change...)...)
	g.url = newServer(t, g.gw.Protect(g.gw, auth.DefaultExempt()))
	return g
}

// running runs a component until stop, or the test's end.
func running(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// key makes a key and returns its ID and its text.
func (g *governed) key(spec auth.Spec) (id, text string) {
	g.t.Helper()
	is, err := auth.NewIssuer(auth.IssuerDeps{Keys: g.store, Models: g.gw.KeyModels, Told: g.auth})
	if err != nil {
		g.t.Fatal(err)
	}
	if spec.Owner == "" {
		spec.Owner = "team"
	}
	made, err := is.Create(g.t.Context(), spec, auth.By{Actor: "test"})
	if err != nil {
		g.t.Fatal(err)
	}
	g.keys = append(g.keys, made.Secret.Reveal())
	return made.Key.ID, made.Secret.Reveal()
}

// rows ends the accounting and returns what it kept of a key, or of all.
func (g *governed) rows(keyID string) []storage.Usage {
	g.t.Helper()
	g.usage()
	var out []storage.Usage
	q := storage.UsageQuery{KeyID: keyID, Page: storage.Page{Limit: 10000}}
	for {
		rows, next, err := g.store.ListUsage(context.Background(), q)
		if err != nil {
			g.t.Fatal(err)
		}
		out = append(out, rows...)
		if next == "" {
			return out
		}
		q.After = next
	}
}

// state is where a key's limits stand.
func (g *governed) state(id string) limit.State {
	g.t.Helper()
	k, err := g.store.Key(context.Background(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	sub, err := gateway.LimitSubject(auth.NewIdentity(k), new(limit.Zones))
	if err != nil {
		g.t.Fatal(err)
	}
	return g.limiter.State(time.Now(), &sub)
}

// balanced fails the test unless what the limiter counts, the sum of the rows, and
// what the store has as spent are the same, with nothing reserved or under way.
func (g *governed) balanced(id string, requests int) {
	g.t.Helper()
	rows := g.rows(id)
	if len(rows) != requests {
		g.t.Errorf("%d rows of %d requests", len(rows), requests)
	}
	var sum int64
	seen := map[string]bool{}
	for _, u := range rows {
		if u.Charged != nil && u.CostNanos != nil {
			sum += *u.CostNanos
		} else if u.CostNanos != nil && *u.CostNanos != 0 {
			g.t.Errorf("%d nanos are charged to no budget: %+v", *u.CostNanos, u)
		}
		if seen[u.RequestID] {
			g.t.Errorf("two rows %s", u.RequestID)
		}
		seen[u.RequestID] = true
	}
	st := g.state(id)
	if st.Inflight != 0 || st.Budget == nil || st.Budget.ReservedNanos != 0 || st.Budget.SpentNanos != sum {
		g.t.Errorf("rows cost %d; the limiter has %+v, %+v", sum, st, st.Budget)
		return
	}
	b := st.Budget.ID
	kept, err := g.store.Budget(context.Background(), storage.BudgetPeriod{KeyID: id, Period: storage.PeriodDay, Start: b.Start})
	if err != nil || kept.SpentNanos != sum {
		g.t.Errorf("rows cost %d; the store has %d as spent, %v", sum, kept.SpentNanos, err)
	}
}

// secret fails the test if a key stands in a log, a metric or a row.
func (g *governed) secret(answers ...answer) {
	g.t.Helper()
	var shown strings.Builder
	shown.WriteString(g.log.String())
	for name := range g.series() {
		shown.WriteString(name)
	}
	shown.WriteString(fmt.Sprintf("%+v", g.rows("")))
	for _, a := range answers {
		shown.WriteString(a.body)
		for name, values := range a.header {
			shown.WriteString(name + strings.Join(values, ""))
		}
	}
	for _, text := range g.keys {
		if strings.Contains(shown.String(), text) || strings.Contains(shown.String(), text[len(text)/2:]) {
			g.t.Error("a key is shown")
		}
	}
}

func bearer(text string) []string { return []string{"Authorization", "Bearer " + text} }

// priced is a model of which a token of prompt costs 1000 nanos, one of answer 2000.
func priced(name string, fallbacks ...string) catalog.Model {
	return catalog.Model{Name: name, Fallbacks: fallbacks, MaxOutputTokens: 100, Prices: []catalog.Price{{Input: 1_000_000_000, Output: new(catalog.Money(2_000_000_000))}}}
}

// worst is the most that chatBody and streamBody cost at those prices.
func worst(body string) int64 { return int64(len(body))*1000 + 8*2000 }

// A budget for one, and 50 who want it at the same time: one gets it.
func TestBudgetForOne(t *testing.T) {
	hold := make(chan struct{})
	e := newRaw(t, func(x *exchange) { <-hold; good(x) })
	cfg := config(at("e", e.url))
	cfg.Models = []catalog.Model{priced("m")}
	g := newGoverned(t, cfg, nil)
	id, text := g.key(auth.Spec{Budget: auth.FormatAmount(worst(chatBody)) + "/day"})
	answers := make(chan answer, 50)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { answers <- g.do("POST", chatPath, chatBody, bearer(text)...) })
	}
	got := map[int]int{}
	for range 49 {
		a := <-answers
		got[a.status]++
		if a.status != 429 || a.code() != "rate_limit_exceeded" || a.header.Get("Retry-After") == "" || a.header.Get("Retry-After-Ms") == "" {
			t.Errorf("refused with %d %s: %v", a.status, a.body, a.header)
		}
	}
	close(hold)
	wg.Wait()
	a := <-answers
	if got[a.status]++; got[200] != 1 || got[429] != 49 || e.calls.Load() != 1 {
		t.Errorf("%v; the engine was asked %d times", got, e.calls.Load())
	}
	// What that one did not need is not enough for another.
	a = g.do("POST", chatPath, chatBody, bearer(text)...)
	if a.status != 429 || a.code() != "insufficient_quota" || a.header.Get("Retry-After") != "" || a.header.Get("X-Should-Retry") != "false" {
		t.Errorf("a spent budget: %d %s: %v", a.status, a.body, a.header)
	}
	if all := auth.FormatAmount(worst(chatBody)); !strings.Contains(a.body, "may cost up to "+all+", more than is left of your key's budget of "+all+".") {
		t.Errorf("a spent budget: %s", a.body)
	}
	g.idle()
	g.balanced(id, 51)
	g.secret(a)
}

// A key that replaces another one begins with nothing anew: while both are good
// they share windows, places and the budget, and afterwards the new one goes on.
func TestRotatedKeysShareWhatIsCounted(t *testing.T) {
	entered, hold := make(chan struct{}), make(chan struct{})
	e := newRaw(t, func(x *exchange) {
		if x.req.Header.Get("X-Request-Id") == "held" {
			close(entered)
			<-hold
		}
		good(x)
	})
	cfg := config(at("e", e.url))
	cfg.Models = []catalog.Model{priced("m")}
	g := newGoverned(t, cfg, nil)
	id, old := g.key(auth.Spec{
		Budget: auth.FormatAmount(100*worst(chatBody)) + "/day",
		Limits: storage.Limits{RequestsPerMinute: new(int64(4)), Concurrency: new(int64(1))},
	})
	ask := func(key string, header ...string) answer {
		return g.do("POST", chatPath, chatBody, append(bearer(key), header...)...)
	}
	if a := ask(old); a.status != 200 {
		t.Fatalf("the old key: %d %s", a.status, a.body)
	}
	is, err := auth.NewIssuer(auth.IssuerDeps{Keys: g.store, Told: g.auth})
	if err != nil {
		t.Fatal(err)
	}
	next, err := is.Rotate(t.Context(), id, auth.Rotation{Overlap: time.Hour}, auth.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	fresh := next.Secret.Reveal()
	g.keys = append(g.keys, fresh)
	a := ask(fresh)
	if a.status != 200 || a.header.Get("X-Ratelimit-Remaining-Requests") != "2" {
		t.Errorf("the new key: %d, %s requests left", a.status, a.header.Get("X-Ratelimit-Remaining-Requests"))
	}
	held := make(chan answer, 1)
	go func() { held <- ask(old, "X-Request-Id", "held") }()
	<-entered
	if a := ask(fresh); a.status != 429 || !strings.Contains(a.body, "under way") {
		t.Errorf("the new key beside a request of the old one: %d %s", a.status, a.body)
	}
	close(hold)
	if a := <-held; a.status != 200 {
		t.Errorf("the request under way: %d %s", a.status, a.body)
	}
	g.idle()
	if _, err := is.Revoke(t.Context(), id, auth.By{}); err != nil {
		t.Fatal(err)
	}
	if a := ask(fresh); a.status != 200 {
		t.Errorf("the new key alone: %d %s", a.status, a.body)
	}
	if a := ask(fresh); a.status != 429 {
		t.Errorf("five requests in a minute: the fifth gets %d", a.status)
	}
	g.idle()
	used, sum := map[string]int{}, int64(0)
	for _, u := range g.rows("") {
		if used[u.KeyID]++; u.Status == 200 {
			sum += *u.CostNanos
		}
	}
	st := g.state(next.Key.ID)
	kept, err := g.store.Budget(context.Background(), storage.BudgetPeriod{KeyID: id, Period: storage.PeriodDay, Start: st.Budget.ID.Start})
	if err != nil || sum == 0 || st.Budget.SpentNanos != sum || kept.SpentNanos != sum || used[id] != 2 || used[next.Key.ID] != 4 {
		t.Errorf("rows of %v cost %d; the limiter has %+v, the store %+v, %v", used, sum, st.Budget, kept, err)
	}
	g.secret(a)
}

// Whoever's key may hear how endpoints are chosen is told; others are not.
func TestKeyMayExplain(t *testing.T) {
	t.Parallel()
	e := newRaw(t, good)
	g := newGoverned(t, config(at("e", e.url)), nil)
	for _, may := range []bool{false, true} {
		_, text := g.key(auth.Spec{MayExplain: may})
		a := g.do("POST", chatPath, chatBody, append(bearer(text), "X-Llmgw-Explain", "1")...)
		if told := strings.Contains(a.header.Get("X-Llmgw-Explain"), "pick=e"); a.status != 200 || told != may {
			t.Errorf("may %v: %d, told %q", may, a.status, a.header.Get("X-Llmgw-Explain"))
		}
	}
}

// What a client who leaves has got is what is charged, within a piece, and its
// engine stops.
func TestDisconnectIsCharged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		engine string
		source storage.Source
	}{{"usage in each piece", "vllm", storage.SourcePartial}, {"pieces counted", "", storage.SourceCounted}} {
		t.Run(tt.name, func(t *testing.T) {
			left := make(chan struct{})
			e := newRaw(t, func(x *exchange) {
				asked := strings.Contains(string(x.body), `"continuous_usage_stats":true`)
				if asked != (tt.engine != "") {
					t.Errorf("the engine gets %s", x.body)
				}
				x.write(eventHead() + chunk(`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"))
				for i := range 150 {
					ev := delta("w")
					if asked {
						ev = strings.TrimSuffix(ev, "}\n\n") + `,"usage":{"prompt_tokens":7,"completion_tokens":` + decimal(i+1) + `,"total_tokens":` + decimal(i+8) + "}}\n\n"
					}
					x.write(chunk(ev))
				}
				x.untilLeft() // of 200 pieces; it hears that nobody listens
				close(left)
			})
			end := at("e", e.url)
			end.Engine = engineName(tt.engine)
			cfg := config(end)
			cfg.Models = []catalog.Model{priced("m")}
			g := newGoverned(t, cfg, nil)
			id, text := g.key(auth.Spec{Budget: "100/day"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, err := g.send(ctx, "POST", chatPath, strings.NewReader(streamBody), bearer(text)...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, buf := "", make([]byte, 4096)
			for strings.Count(body, `"content":"w"`) < 150 {
				n, err := res.Body.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				body += string(buf[:n])
			}
			if strings.Contains(body, "usage") {
				t.Error("the client sees the usage that it did not ask for")
			}
			cancel()
			<-left
			g.idle()
			rows := g.rows(id)
			if len(rows) != 1 || rows[0].Source != tt.source || rows[0].Result != "canceled" || !rows[0].Stream || rows[0].TTFT == nil {
				t.Fatalf("rows %+v", rows)
			}
			if n := *rows[0].Tokens.Output; n < 149 || n > 151 {
				t.Errorf("%d tokens of 150", n)
			}
			g.balanced(id, 1)
		})
	}
}

// While the store is away known keys are served, others are told to come again, rows
// that find no room are counted to the last, and it heals by itself.
func TestStoreAway(t *testing.T) {
	cfg := config(at("e", newRaw(t, good).url))
	g := newGoverned(t, cfg, func(c *usage.Config) { c.BufferRows, c.BatchRows, c.FlushInterval = 100, 50, 10*time.Millisecond })
	id, text := g.key(auth.Spec{})
	_, stranger := g.key(auth.Spec{})
	if a := g.do("POST", chatPath, chatBody, bearer(text)...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	g.eventually("the first row is kept", func() bool { return g.metric("llmgw_usage_kept_total") == 1 })
	g.store.away.Store(true)
	for range 300 {
		if a := g.do("POST", chatPath, chatBody, bearer(text)...); a.status != 200 {
			t.Fatalf("a known key gets %d %s", a.status, a.body)
		}
	}
	a := g.do("POST", chatPath, chatBody, bearer(stranger)...)
	if a.status != 503 || a.header.Get("Retry-After") == "" || a.code() != "keys_unavailable" {
		t.Errorf("an unknown key gets %d %s: %v", a.status, a.body, a.header)
	}
	if dropped := g.metric("llmgw_usage_dropped_total", "reason=full"); dropped != 200 {
		t.Errorf("%v rows are counted as dropped; want 200", dropped)
	}
	g.store.away.Store(false)
	g.eventually("the stranger is known", func() bool { return g.do("POST", chatPath, chatBody, bearer(stranger)...).status == 200 })
	if n := len(g.rows(id)); n != 101 {
		t.Errorf("%d rows are kept; want 1 from before and 100 that had room", n)
	}
	g.secret(a)
}

var requestIDs = regexp.MustCompile(`req_[0-9a-f]{32}`)

// A key reaches what its list names, by whatever path and name, and nothing else.
func TestRestrictedKeyWalksTheRoutes(t *testing.T) {
	t.Parallel()
	mine, other := newRaw(t, good), newRaw(t, good)
	cfg := config(at("m", mine.url, "m"), at("n", other.url, "n"), at("f", deadURL(t), "f"))
	cfg.Models = []catalog.Model{
		{Name: "m", Aliases: []string{"m-alias"}}, {Name: "n", Aliases: []string{"n-alias", "m/n"}}, {Name: "f", Fallbacks: []string{"n"}},
	}
	g := newGoverned(t, cfg, nil)
	_, text := g.key(auth.Spec{Models: []string{"m-alias", "m/*", "f"}})
	var answers []answer
	paths := knownPaths(t, g.gw)
	if len(paths) < 15 {
		t.Fatalf("paths %v", paths)
	}
	for _, path := range append(paths, "/v1/anything/else", "/v1/models/n", "/v1/models") {
		answers = append(answers, g.do("POST", path, `{"model":"m"}`))
		if a := answers[len(answers)-1]; a.status != 401 || a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s without a key: %d %v", path, a.status, a.header)
		}
		for _, name := range []string{"n", "n-alias", "m/n", "f"} {
			ask := func(name string) (int, string) {
				a := g.do("POST", path, `{"model":"`+name+`","messages":[],"max_tokens":1}`, bearer(text)...)
				return a.status, requestIDs.ReplaceAllString(strings.ReplaceAll(a.body, "'"+name+"'", "''"), "")
			}
			status, body := ask(name)
			unknown, words := ask("nobody")
			if status == 200 || name != "f" && (status != unknown || body != words) {
				t.Errorf("%s %s: %d %s; an unknown model %d %s", path, name, status, body, unknown, words)
			}
		}
	}
	if n := other.calls.Load(); n != 0 {
		t.Errorf("an engine that the key must not reach was asked %d times", n)
	}
	for _, name := range []string{"m", "m-alias"} {
		if a := g.do("POST", chatPath, strings.Replace(chatBody, `"m"`, `"`+name+`"`, 1), bearer(text)...); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	a := g.do("GET", "/v1/models", "", "x-api-key", text)
	if a.status != 200 || strings.Contains(a.body, `"n"`) || !strings.Contains(a.body, `"m"`) || !strings.Contains(a.body, `"f"`) {
		t.Errorf("the list: %d %s", a.status, a.body)
	}
	if a := g.do("GET", "/v1/models/n", "", bearer(text)...); a.status != 404 {
		t.Errorf("the model: %d %s", a.status, a.body)
	}
	answers = append(answers, g.do("POST", chatPath+"?key="+text, chatBody), g.do("POST", chatPath, chatBody, "Authorization", "Bearer "+text, "x-api-key", text+"x"))
	for _, a := range answers[len(answers)-2:] {
		if a.status != 400 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	g.secret(answers...)
}

// Limits are told with every answer, in the words of the API, and refuse with codes
// that its SDKs know.
func TestLimitsAreTold(t *testing.T) {
	g := newGoverned(t, config(at("e", newRaw(t, good).url)), nil)
	two, tokens := int64(2), int64(5)
	_, text := g.key(auth.Spec{Limits: storage.Limits{RequestsPerMinute: &two}})
	for i, path := range []string{chatPath, "/v1/messages", chatPath, "/v1/messages"} {
		a := g.do("POST", path, chatBody, bearer(text)...)
		limitHeader, remaining := "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests"
		if path == "/v1/messages" {
			limitHeader, remaining = "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining"
		}
		if a.header.Get(limitHeader) != "2" || a.header.Get(remaining) != decimal(max(0, 1-i)) {
			t.Errorf("%d: headers %v", i, a.header)
		}
		if want := map[bool]int{true: 200, false: 429}[i < 2]; a.status != want {
			t.Errorf("%d: %d %s", i, a.status, a.body)
		}
		if i >= 2 && (a.header.Get("Retry-After") == "" || a.header.Get("Retry-After-Ms") == "" || !strings.Contains(a.body, "rate_limit")) {
			t.Errorf("%d: %v %s", i, a.header, a.body)
		}
	}
	_, text = g.key(auth.Spec{Limits: storage.Limits{TokensPerMinute: &tokens}})
	a := g.do("POST", chatPath, chatBody, bearer(text)...)
	if a.status != 429 || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") != "" {
		t.Errorf("larger than its minute: %d %s %v", a.status, a.body, a.header)
	}
	g.idle()
	for _, u := range g.rows("") {
		if (u.Status == http.StatusTooManyRequests) != (u.Source == storage.SourceNone) || u.KeyID == "" || u.Owner != "team" || u.Router != "r1" {
			t.Errorf("row %+v", u)
		}
	}
}

// The band is the key's, whatever the header says, and all that a key does is one
// tenant's, whatever sessions it names.
func TestKeySaysBandAndTenant(t *testing.T) {
	g := newGoverned(t, config(at("e", newRaw(t, good).url)), nil, func(d *gateway.Deps) { d.Admitter = nil })
	g.run()
	id, text := g.key(auth.Spec{Band: "bronze"})
	for i := range 3 {
		if a := g.do("POST", chatPath, chatBody, append(bearer(text), "x-llmgw-band", "platinum", "x-session-id", decimal(i))...); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if o := g.next(); o.Identity.Band != "bronze" || o.Identity.Tenant != id {
			t.Errorf("band %q, tenant %q", o.Identity.Band, o.Identity.Tenant)
		}
	}
}

// A key with a budget does not run into a cost that nobody can bound.
func TestBudgetNeedsABound(t *testing.T) {
	cfg := config(at("e", newRaw(t, good).url))
	cfg.Models = []catalog.Model{{Name: "m", Prices: priced("m").Prices}}
	if w := strings.Join(cfg.Warnings(), "\n"); !strings.Contains(w, "models[0].max_output_tokens") {
		t.Errorf("warnings: %s", w)
	}
	g := newGoverned(t, cfg, nil)
	_, text := g.key(auth.Spec{Budget: "1/month@Europe/Berlin"})
	body := strings.Replace(chatBody, `,"max_tokens":8`, "", 1)
	if a := g.do("POST", chatPath, body, bearer(text)...); a.status != 400 || a.code() != "max_tokens_required" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := g.do("POST", chatPath, chatBody, bearer(text)...); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What a budget has reserved of an answer whose request says no bound is all that
// an engine is asked for; who has no budget is not bounded, nor is what is free.
func TestBudgetBoundsTheAnswer(t *testing.T) {
	var got atomic.Value
	cfg := config(at("e", newRaw(t, func(x *exchange) {
		got.Store(string(x.body))
		good(x)
	}).url, "m", "free"))
	cfg.Models = []catalog.Model{priced("m"), {Name: "free", MaxOutputTokens: 100}}
	g := newGoverned(t, cfg, nil)
	_, budget := g.key(auth.Spec{Budget: "1/month"})
	_, none := g.key(auth.Spec{})
	open := strings.Replace(chatBody, `,"max_tokens":8`, "", 1)
	null := strings.Replace(chatBody, `"max_tokens":8`, `"max_tokens":null`, 1)
	more := strings.Replace(chatBody, `"max_tokens":8`, `"max_tokens":800`, 1)
	onFree := strings.Replace(open, `"m"`, `"free"`, 1)
	for _, tt := range []struct{ name, key, body, want string }{
		{"no bound", budget, open, `{"max_tokens":100,` + open[1:]},
		{"null", budget, null, strings.Replace(null, "null", "100", 1)},
		{"more than the model's", budget, more, more},
		{"its own", budget, chatBody, chatBody},
		{"without a price", budget, onFree, onFree},
		{"without a budget", none, open, open},
		{"null without a budget", none, null, null},
	} {
		if a := g.do("POST", chatPath, tt.body, bearer(tt.key)...); a.status != 200 || got.Load() != tt.want {
			t.Errorf("%s: %d %s: the engine got %s, want %s", tt.name, a.status, a.body, got.Load(), tt.want)
		}
	}
}

// A larger budget lets a key that has spent its own go on at once.
func TestRaisedBudgetGoesOn(t *testing.T) {
	cfg := config(at("e", newRaw(t, good).url))
	cfg.Models = []catalog.Model{priced("m")}
	g := newGoverned(t, cfg, nil)
	id, text := g.key(auth.Spec{Budget: auth.FormatAmount(worst(chatBody)) + "/day"})
	for _, want := range []int{200, 429} {
		if a := g.do("POST", chatPath, chatBody, bearer(text)...); a.status != want {
			t.Fatalf("%d %s, want %d", a.status, a.body, want)
		}
	}
	is, err := auth.NewIssuer(auth.IssuerDeps{Keys: g.store, Told: g.auth})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := is.Update(t.Context(), id, auth.Change{Budget: new(auth.FormatAmount(3*worst(chatBody)) + "/day")}, auth.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if a := g.do("POST", chatPath, chatBody, bearer(text)...); a.status != 200 {
		t.Errorf("with a larger budget: %d %s", a.status, a.body)
	}
}
