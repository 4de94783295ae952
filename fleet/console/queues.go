package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/auth/webui"
)

// bandRow is a band of a pool, or of all of them.
type bandRow struct {
	Name, Ceiling      string
	Priority, Waiting  int
	Admitted, Rejected uint64
	Held               bool // its requests wait for the saturation to fall
}

// poolRow is a pool.
type poolRow struct {
	Name       string
	Status     webui.Status
	Saturation *webui.Bar // nil: not known
	Leases     int
	Waiting    int
	Waking     int
	Bands      []bandRow
}

// queuesView is what waits.
type queuesView struct {
	Has     bool // there is admission
	Leases  int
	Waiting int
	Waking  int
	Bands   []bandRow // over all pools
	Pools   []poolRow
	List    list
}

// queues shows what waits for its turn, the longest queue first.
func (c *Console) queues(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	reading := c.deps.Traffic.Traffic()
	v := queuesView{Has: reading.HasPools}
	rows := map[string]*poolRow{}
	var all []*poolRow
	get := func(name string) *poolRow {
		if rows[name] == nil {
			rows[name] = &poolRow{Name: name}
			all = append(all, rows[name])
		}
		return rows[name]
	}
	for i := range reading.Pools {
		p := &reading.Pools[i]
		get(p.Name).fill(p)
		v.add(p)
	}
	for i := range reading.Models {
		if m := &reading.Models[i]; m.Waking > 0 {
			get(m.Model).Waking = m.Waking
			v.Waking += m.Waking
		}
	}
	for _, row := range all {
		row.judge()
	}
	slices.SortFunc(all, func(a, b *poolRow) int {
		return cmp.Or(cmp.Compare(b.Waiting+b.Waking, a.Waiting+a.Waking), cmp.Compare(b.full(), a.full()), strings.Compare(a.Name, b.Name))
	})
	l, page := asked(r, "pools")
	for _, row := range cut(&l, page, c.cfg.Rows/2, all, func(b *strings.Builder, p *poolRow) { words(b, p.Name) }) {
		v.Pools = append(v.Pools, *row)
	}
	v.List = l
	return c.show(w, r, "queues.html", "Queues", nil, v)
}

// add adds a pool to what all have together.
func (v *queuesView) add(p *Pool) {
	v.Leases += p.Leases
	for _, b := range p.Bands {
		v.Waiting += b.Waiting
		i := slices.IndexFunc(v.Bands, func(x bandRow) bool { return x.Name == b.Name })
		if i < 0 {
			i = len(v.Bands)
			v.Bands = append(v.Bands, bandRow{Name: b.Name, Priority: b.Priority, Ceiling: ceiling(b.Ceiling)})
		}
		v.Bands[i].Waiting += b.Waiting
		v.Bands[i].Admitted += b.Admitted
		v.Bands[i].Rejected += b.Rejected
	}
}

// fill is what is known of a pool.
func (row *poolRow) fill(p *Pool) {
	row.Leases = p.Leases
	if p.HasSaturation {
		row.Saturation = &webui.Bar{Label: "saturation of " + p.Name, Used: p.Saturation, Of: 1, Text: fmt.Sprintf("%.0f%%", 100*p.Saturation)}
	}
	for _, b := range p.Bands {
		row.Waiting += b.Waiting
		row.Bands = append(row.Bands, bandRow{
			Name: b.Name, Priority: b.Priority, Ceiling: ceiling(b.Ceiling), Waiting: b.Waiting, Admitted: b.Admitted, Rejected: b.Rejected,
			Held: p.HasSaturation && b.Ceiling <= 1 && p.Saturation > b.Ceiling,
		})
	}
}

// judge says how it stands.
func (row *poolRow) judge() {
	switch {
	case row.Waiting+row.Waking == 0:
		row.Status = webui.Status{Kind: webui.Good, Text: "nothing waits"}
		if row.Leases == 0 {
			row.Status = webui.Status{Kind: webui.Idle, Text: "idle"}
		}
	case row.Waking > 0:
		row.Status = webui.Status{Kind: webui.Busy, Text: "comes up"}
	case row.full() >= 1:
		row.Status = webui.Status{Kind: webui.Bad, Text: "full, and more waits"}
	default:
		row.Status = webui.Status{Kind: webui.Warn, Text: "some wait"}
	}
}

// full is the saturation; -1: not known.
func (row *poolRow) full() float64 {
	if row.Saturation == nil {
		return -1
	}
	return row.Saturation.Used
}

// ceiling is the saturation above which a band waits.
func ceiling(v float64) string {
	if v > 1 {
		return "never held"
	}
	return fmt.Sprintf("%.0f%%", 100*v)
}

// totals are how many requests are with engines and how many wait, for people.
func totals(reading TrafficReading) (flight, waiting string) {
	n, known := 0, false
	wait := 0
	for i := range reading.Models {
		m := &reading.Models[i]
		if m.HasInFlight {
			n, known = n+m.InFlight, true
		}
		wait += m.Waking
	}
	for i := range reading.Pools {
		for _, b := range reading.Pools[i].Bands {
			wait += b.Waiting
		}
	}
	flight, waiting = "-", fmt.Sprint(wait)
	if known {
		flight = fmt.Sprint(n)
	}
	if !reading.HasPools && wait == 0 {
		waiting = "-"
	}
	return flight, waiting
}
