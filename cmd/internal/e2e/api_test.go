package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// replica is a replica as PlacementService shows it, which is what `llmgw ctl
// replicas` shows.
type replica struct {
	ID, Model, State, Reason, Held, Fabric, Address string

	Generation string
	Shards     []struct {
		Node   string
		Cards  []string
		Status *struct{ State, Start string }
	}
}

// nodes are those of a replica's ranks, the leading one's first.
func (r *replica) nodes() (on []string) {
	for _, s := range r.Shards {
		on = append(on, s.Node)
	}
	return on
}

// fabric is what a fabric has left.
type fabric struct {
	Fabric    string
	WholeFree int `json:"whole_free"`
	FreeCards int `json:"free_cards"`
}

// manage asks the management API of a server, as JSON. It reports false while the
// server does not answer, as one that is just starting.
func (w *world) manage(s *server, method, question string, answer any) bool {
	w.t.Helper()
	resp, err := http.Post("http://"+s.admin+"/llmgw.api.v1."+method, "application/json", strings.NewReader(question)) //nolint:noctx // it answers or is gone
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// rows are all replicas of a model of which the server keeps a row, by id: nothing
// is left of one that is not among them. False: they are not known.
func (w *world) rows(s *server, model string) ([]replica, bool) {
	w.t.Helper()
	var list struct{ Replicas []replica }
	if !w.manage(s, "PlacementService/ListReplicas", "{}", &list) {
		return nil, false
	}
	return slices.DeleteFunc(list.Replicas, func(r replica) bool { return r.Model != model }), true
}

// row is the one of a replica; the zero replica: there is none.
func (w *world) row(s *server, model, id string) replica {
	w.t.Helper()
	rows, _ := w.rows(s, model)
	for _, r := range rows {
		if r.ID == id {
			return r
		}
	}
	return replica{}
}

// inState are a model's replicas in a state such as READY.
func (w *world) inState(s *server, model, state string) []replica {
	w.t.Helper()
	rows, _ := w.rows(s, model)
	return slices.DeleteFunc(rows, func(r replica) bool { return r.State != "REPLICA_STATE_"+state })
}

// fabric is what the server says of a fabric.
func (w *world) fabric(s *server, name string) fabric {
	w.t.Helper()
	var status struct{ Fabrics []fabric }
	w.manage(s, "PlacementService/GetStatus", "{}", &status)
	for _, f := range status.Fabrics {
		if f.Fabric == name {
			return f
		}
	}
	return fabric{}
}

// metric is the sum of a metric's series on the page of a server's admin listener
// that have all of some labels, such as `model="m"`.
func (p *program) metric(t *testing.T, admin, name string, labels ...string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + admin + "/metrics") //nolint:noctx // it answers or is gone
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(series, "{"); base != name {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %q: %v", p.name, lines.Text(), err)
		}
		sum += v
	}
	return sum
}

// setting is a duration that an environment variable may set for a long run.
func setting(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is no duration; want such as 60s", name, text)
	}
	return d
}
