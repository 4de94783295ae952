package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// mostExplained is of how many replicas a page says where they would go today: each
// costs a decision on the whole fleet.
const mostExplained = 20

// modelState is what the services say of one model: each may know it or not.
type modelState struct {
	name   string
	entry  *apipb.Model       // nil: the catalog was not read, or has it not
	placed *apipb.PlacedModel // nil: no engine here runs it, or that is not known
	flow   *ModelTraffic      // nil: no request for it has ended here
	pool   *Pool              // nil: none was offered lately
}

// modelRow is a model in the table.
type modelRow struct {
	Name, Origin, Of, Idle, NextTry, Rate, InFlight, Waiting string

	State    webui.Status
	Replicas string
	Full     *webui.Bar // nil: not known
	Spark    template.HTML
	Troubles some
}

// modelsView is all models.
type modelsView struct {
	List    list
	Leads   []string
	Stored  string // why those of the store may be missing
	Models  []modelRow
	Placed  bool // there is a control plane
	Traffic bool
	Known   bool
}

// allModels asks for all that is known of models.
func (c *Console) allModels(r *http.Request, missing *[]string) (all []*modelState, status *apipb.GetStatusResponse, stored string) {
	by := map[string]*modelState{}
	get := func(name string) *modelState {
		if by[name] == nil {
			by[name] = &modelState{name: name}
			all = append(all, by[name])
		}
		return by[name]
	}
	if c.deps.Models != nil {
		answer, _ := ask(r.Context(), c, missing, "the catalog", c.deps.Models.ListModels, &apipb.ListModelsRequest{})
		for _, m := range answer.GetModels() {
			get(m.GetName()).entry = m
		}
		stored = answer.GetStoredUnknown()
	}
	if c.deps.Placement != nil {
		status, _ = ask(r.Context(), c, missing, "the fleet", c.deps.Placement.GetStatus, &apipb.GetStatusRequest{})
		for _, m := range status.GetModels() {
			get(m.GetName()).placed = m
		}
	}
	if c.deps.Traffic != nil {
		reading := c.deps.Traffic.Traffic()
		for i := range reading.Models {
			if m := &reading.Models[i]; by[m.Model] != nil {
				by[m.Model].flow = m
			}
		}
		for i := range reading.Pools {
			if p := &reading.Pools[i]; by[p.Name] != nil {
				by[p.Name].pool = p
			}
		}
	}
	return all, status, stored
}

// models shows the models, those that have not what is wanted of them first.
func (c *Console) models(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	var missing []string
	l, page := asked(r, "models")
	all, status, stored := c.allModels(r, &missing)
	at := status.GetAt()
	ranks := make(map[*modelState]int, len(all))
	for _, m := range all {
		ranks[m] = m.rank(at)
	}
	slices.SortStableFunc(all, func(a, b *modelState) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(b.waiting(), a.waiting()), strings.Compare(a.name, b.name))
	})
	v := modelsView{Stored: stored, Placed: c.deps.Placement != nil, Traffic: c.deps.Traffic != nil, Known: len(missing) == 0 || len(all) > 0}
	if status != nil {
		v.Leads = doubts(status.GetStanding())
	}
	for _, m := range cut(&l, page, c.cfg.Rows, all, modelWords) {
		v.Models = append(v.Models, c.modelOf(m, ranks[m], at))
	}
	v.List = l
	return c.show(w, r, "models.html", "Models", missing, v)
}

// rank is how soon a person should look at a model; 0 is first.
func (m *modelState) rank(at *timestamppb.Timestamp) int {
	state := m.placed.GetScaling().GetState()
	switch {
	case state == apipb.ModelStanding_MODEL_STANDING_FAILING, state == apipb.ModelStanding_MODEL_STANDING_UNPLACED, m.placed.GetProblem() != "":
		return 0
	case m.placed != nil && len(telling.ModelTroubles(m.placed, at)) > 0:
		return 1
	case len(m.entry.GetSetAside()) > 0:
		return 2
	case m.placed.GetReady() < m.placed.GetWanted():
		return 3
	case state == apipb.ModelStanding_MODEL_STANDING_OFF, state == apipb.ModelStanding_MODEL_STANDING_ASLEEP:
		return 5
	case m.placed == nil:
		return 6
	}
	return 4
}

func (m *modelState) status(rank int) webui.Status {
	kinds := [...]webui.Kind{webui.Bad, webui.Warn, webui.Warn, webui.Busy, webui.Good, webui.Idle, webui.Idle}
	text := telling.Standing(m.placed.GetScaling())
	switch {
	case len(m.entry.GetSetAside()) > 0:
		text = "set aside"
	case m.placed == nil:
		text = "not run here"
	case text == "-":
		text = "not decided yet"
	}
	return webui.Status{Kind: kinds[rank], Text: text}
}

// waiting is how many requests wait for it, as far as anybody has said.
func (m *modelState) waiting() int {
	n := int(m.placed.GetScaling().GetWaiting() + m.placed.GetScaling().GetQueued())
	if n > 0 {
		return n // of all routers, this one among them
	}
	if m.flow != nil {
		n += m.flow.Waking
	}
	if m.pool != nil {
		for _, b := range m.pool.Bands {
			n += b.Waiting
		}
	}
	return n
}

func modelWords(b *strings.Builder, m *modelState) {
	words(b, m.name, telling.Standing(m.placed.GetScaling()), m.entry.GetEngine(), m.entry.GetSource(), m.placed.GetProblem(), m.placed.GetUnplaced(), m.placed.GetFailure())
	words(b, m.entry.GetAliases()...)
}

func (c *Console) modelOf(m *modelState, rank int, at *timestamppb.Timestamp) modelRow {
	row := modelRow{
		Name: m.name, State: m.status(rank), Of: telling.Bounds(m.placed.GetScaling()), Idle: "-", NextTry: "-", Rate: "-", InFlight: "-", Waiting: "-", Replicas: "-",
		Troubles: first(append(slices.Clone(m.entry.GetSetAside()), modelTroubles(m.placed, at)...), mostRowTroubles, ""),
	}
	if p := m.placed; p != nil {
		row.Replicas = fmt.Sprintf("%d of %d ready", p.GetReady(), p.GetWanted())
		for _, n := range []struct {
			count uint32
			word  string
		}{{p.GetComing(), "coming"}, {p.GetLeaving(), "leaving"}, {p.GetLost(), "lost"}, {p.GetAsleep(), "asleep"}} {
			if n.count > 0 {
				row.Replicas += fmt.Sprintf(", %d %s", n.count, n.word)
			}
		}
		row.Idle = telling.Idle(p.GetIdleSeconds())
		if p.GetNextTry() != nil {
			row.NextTry = telling.Since(p.GetNextTry(), at)
		}
		row.Full = fullBar(p.GetScaling())
	}
	if m.placed.GetScaling() != nil || m.pool != nil || m.flow != nil {
		row.Waiting = fmt.Sprint(m.waiting())
	}
	if m.flow != nil && m.flow.HasInFlight {
		row.InFlight = fmt.Sprint(m.flow.InFlight)
	}
	if c.history != nil {
		row.Rate = perSecond(c.history.over(c.deps.Now(), time.Minute, ofModel(m.name)))
	}
	return row
}

func modelTroubles(p *apipb.PlacedModel, at *timestamppb.Timestamp) []string {
	if p == nil {
		return nil
	}
	return telling.ModelTroubles(p, at)
}

// fullBar is how full a model's replicas are; nil: not known.
func fullBar(s *apipb.PlacedScaling) *webui.Bar {
	if s == nil || s.Load == nil {
		return nil
	}
	return &webui.Bar{Label: "how full its replicas are", Used: s.GetLoad(), Of: 1, Text: telling.Full(s)}
}

// rejectedRow is a node that was not used.
type rejectedRow struct {
	Node    string
	Reasons []fact
}

// kindCount is how many nodes are rejected for a kind of reason.
type kindCount struct {
	Kind  string
	Nodes int
}

// decisionView is where a replica would go, or why nowhere.
type decisionView struct {
	Head    string
	Runners []string
}

// explainedRow is a replica and what would be decided of it today.
type explainedRow struct {
	Replica, At string
	State       webui.Status
	decisionView
}

// memoryRow is what a card of a class has to have free.
type memoryRow struct {
	Class, Size, Need, Estimate, Peak, Off, Planned, Why string

	Parts []fact
}

// placementView is why a model's replicas are where they are.
type placementView struct {
	Need      string
	Memory    string
	Weights   string
	Looking   bool   // nodes look for the weights, and not all have answered
	Host      string // of its machine's own memory; empty: not known
	Classes   []memoryRow
	Replicas  []explainedRow
	More      int // replicas that are left out
	Next      *decisionView
	Fabrics   some
	Others    some
	Rejected  []rejectedRow
	ByKind    []kindCount
	HasReject bool
}

// modelView is a model.
type modelView struct {
	Name, Definition string

	State     webui.Status
	Facts     []fact
	Full      *webui.Bar
	Troubles  some
	Prices    string
	Chart     *webui.Columns
	Placement *placementView // nil: not known, or it is not run here
	List      list
}

// model shows a model with why its replicas are where they are.
func (c *Console) model(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	name := r.URL.Query().Get("name")
	if name == "" || len(name) > maxFilter {
		return none("model", name, c.deps.Root+"models")
	}
	var missing []string
	all, status, _ := c.allModels(r, &missing)
	at := status.GetAt()
	i := slices.IndexFunc(all, func(m *modelState) bool { return m.name == name || slices.Contains(m.entry.GetAliases(), name) })
	if i < 0 {
		if len(missing) > 0 {
			return c.show(w, r, "model.html", "Model "+name, missing, nil)
		}
		return none("model", name, c.deps.Root+"models")
	}
	m := all[i]
	l, page := asked(r, "nodes", param{"name", m.name})
	var placement *placementView
	if m.placed != nil {
		if e, ok := ask(r.Context(), c, &missing, "why it is placed so", c.deps.Placement.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: m.name, MostReplicas: mostExplained}); ok {
			placement = c.explained(e, &l, page)
			if e.GetModel() != nil { // what the page says of the model is of the moment of its reasons
				m.placed, at = e.GetModel(), e.GetAt()
			}
		}
	}
	v := modelView{
		Name: m.name, State: m.status(m.rank(at)), Full: fullBar(m.placed.GetScaling()), Facts: c.modelFacts(m, at), Placement: placement, List: l,
		Troubles: first(append(slices.Clone(m.entry.GetSetAside()), modelTroubles(m.placed, at)...), mostParts, ""),
	}
	if m.entry != nil {
		if d, ok := ask(r.Context(), c, &missing, "the model's entry", c.deps.Models.GetModel, &apipb.GetModelRequest{Name: m.name}); ok {
			v.Prices = short(prices(d.GetDefinition()), 4<<10)
		}
	}
	if c.history != nil {
		v.Chart = requestChart(c.history.course(ofModel(m.name)), "Requests for it, of this server's router")
	}
	return c.show(w, r, "model.html", "Model "+m.name, missing, v)
}

func (c *Console) modelFacts(m *modelState, at *timestamppb.Timestamp) []fact {
	var facts []fact
	add := func(name, text string) { facts = append(facts, fact{name, short(text, 2*maxText)}) }
	if p := m.placed; p != nil {
		add("Replicas", fmt.Sprintf("%d wanted, %d ready, %d coming, %d leaving, %d lost", p.GetWanted(), p.GetReady(), p.GetComing(), p.GetLeaving(), p.GetLost()))
		if text := telling.Scaling(p, at); text != "" {
			add("Why so many", text)
		}
		add("Idle", telling.Idle(p.GetIdleSeconds()))
	}
	if m.placed.GetScaling() != nil || m.pool != nil || m.flow != nil {
		add("Waiting", fmt.Sprint(m.waiting()))
	}
	if e := m.entry; e != nil {
		add("Aliases", telling.OrDash(strings.Join(e.GetAliases(), ", ")))
		add("Falls back to", telling.OrDash(strings.Join(e.GetFallbacks(), ", ")))
		add("Engine", telling.OrDash(e.GetEngine()))
		add("Source", telling.OrDash(e.GetSource()))
		origin := "the server's configuration"
		if e.GetOrigin() == apipb.ModelOrigin_MODEL_ORIGIN_STORE {
			origin = "the store: " + telling.OrDash(e.GetActor()) + " changed it last"
			if e.GetChangedAt() != nil {
				origin += ", on " + e.GetChangedAt().AsTime().UTC().Format(time.DateTime)
			}
		}
		add("Entry of", origin)
	}
	if c.history != nil {
		now := c.deps.Now()
		for _, w := range windows() {
			rt := c.history.over(now, w.span, ofModel(m.name))
			add("Over "+w.label, fmt.Sprintf("%s requests a second, %s tokens, %s failed, %s refused", perSecond(rt), tokensPerSecond(rt), failedPerSecond(rt), refusedPerSecond(rt)))
		}
	}
	return facts
}

// explained is the answer about placement; the nodes that are not used are a list in
// pages.
func (c *Console) explained(e *apipb.ExplainPlacementResponse, l *list, page int) *placementView {
	v := &placementView{}
	if n := e.GetNeed(); n != nil {
		v.Need = short(telling.Need(n), 4*maxText)
		v.memory(n.GetMemory())
	}
	for _, x := range e.GetReplicas()[:min(len(e.GetReplicas()), mostExplained)] {
		row := explainedRow{
			Replica: x.GetReplica(), At: short(telling.Places(x.GetShards()), 2*maxText),
			State: webui.Status{Text: telling.ReplicaState(x.GetState())},
		}
		switch today := x.GetToday(); {
		case today == nil:
		case x.GetSame():
			row.Head = "asked again as things are now, it would go there: " + today.GetWhy()
		case today.GetPlaced():
			row.Head = "asked again as things are now, it would go to " + telling.Place(today) + ": " + today.GetWhy()
		default:
			row.Head = "asked again as things are now, it would have no place: " + today.GetWhy()
		}
		row.Head = short(row.Head, 2*maxText)
		v.Replicas = append(v.Replicas, row)
	}
	v.More = len(e.GetReplicas()) - len(v.Replicas)
	next := e.GetNext()
	if next == nil {
		return v
	}
	d := &decisionView{}
	switch {
	case next.GetPlaced():
		d.Head = "one more would go to " + telling.Place(next) + ": " + next.GetWhy()
	case next.GetCouldEver():
		d.Head = "one more has no place: " + next.GetWhy()
	default:
		d.Head = "one more has no place, not even on empty nodes: " + next.GetWhy()
	}
	d.Head = short(d.Head, 4*maxText)
	for _, x := range next.GetRunners()[:min(len(next.GetRunners()), mostTroubles)] {
		at := strings.Join(x.GetNodes(), ", ")
		if x.GetFabric() != "" {
			at += " in " + x.GetFabric()
		}
		d.Runners = append(d.Runners, short("then to "+at+", which is behind by "+x.GetBehindBy(), maxText))
	}
	v.Next = d
	texts := make([]string, 0, len(next.GetFabrics()))
	for _, f := range next.GetFabrics() {
		texts = append(texts, f.GetText())
	}
	v.Fabrics, v.Others = first(texts, c.cfg.Rows, ""), first(next.GetOthers(), mostParts, "")
	v.rejected(next, l, page, c.cfg.Rows)
	return v
}

// rejected lists the nodes that would not do, and counts them by why.
func (v *placementView) rejected(d *apipb.PlacementDecision, l *list, page, rows int) {
	v.HasReject = len(d.GetRejected()) > 0
	kinds := map[string]int{}
	for _, n := range d.GetRejected() {
		seen := map[string]bool{}
		for _, x := range n.GetReasons() {
			if !seen[x.GetKind()] {
				seen[x.GetKind()] = true
				kinds[x.GetKind()]++
			}
		}
	}
	for kind, n := range kinds {
		v.ByKind = append(v.ByKind, kindCount{kind, n})
	}
	slices.SortFunc(v.ByKind, func(a, b kindCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Kind, b.Kind))
	})
	v.ByKind = v.ByKind[:min(len(v.ByKind), mostParts)]
	for _, n := range cut(l, page, rows, d.GetRejected(), func(b *strings.Builder, n *apipb.NodeRejection) {
		words(b, n.GetNode())
		for _, x := range n.GetReasons() {
			words(b, x.GetKind(), x.GetText())
		}
	}) {
		row := rejectedRow{Node: n.GetNode()}
		for _, x := range n.GetReasons() {
			row.Reasons = append(row.Reasons, fact{x.GetKind(), short(x.GetText(), maxText)})
		}
		v.Rejected = append(v.Rejected, row)
	}
}

// memory is what memory a replica needs, and how that is known.
func (v *placementView) memory(m *apipb.MemoryNeed) {
	if m == nil {
		return
	}
	if m.StatedBytes != nil {
		v.Memory = telling.Memory(m.StatedBytes) + " of each card, "
	}
	v.Memory = short(v.Memory+m.GetWhy(), 2*maxText)
	switch {
	case m.GetWeights() != nil:
		v.Weights = telling.Weights(m.GetWeights())
	case m.GetWeightsMissing() != "":
		v.Weights = "not known: " + m.GetWeightsMissing()
	}
	v.Weights, v.Looking = short(v.Weights, 2*maxText), m.GetLooking()
	if m.HostBytes != nil {
		v.Host = telling.Memory(m.HostBytes)
	}
	for _, k := range m.GetClasses()[:min(len(m.GetClasses()), mostTroubles)] {
		row := memoryRow{
			Class: cmp.Or(k.GetClass(), "any"), Size: telling.Memory(k.CardBytes), Need: telling.Memory(k.NeedBytes), Estimate: telling.Memory(k.EstimateBytes),
			Peak: telling.Memory(k.PeakBytes), Off: telling.MemoryOff(k), Planned: telling.PlannedMemory(m, k), Why: k.GetWhy(),
		}
		if k.GetNever() != "" {
			row.Why = "none can ever hold it: " + k.GetNever()
		}
		row.Why = short(row.Why, maxText)
		for _, p := range k.GetParts()[:min(len(k.GetParts()), mostTroubles)] {
			row.Parts = append(row.Parts, fact{p.GetName(), short(telling.Memory(p.Bytes)+": "+p.GetHow(), maxText)})
		}
		v.Classes = append(v.Classes, row)
	}
}

// prices is what an entry says of prices: the lines below its key prices. The rest of
// an entry may have secrets in its variables, and is not shown.
func prices(definition string) string {
	var out []string
	indent := -1
	for line := range strings.Lines(definition) {
		line = strings.TrimRight(line, "\r\n")
		text := strings.TrimLeft(line, " ")
		here := len(line) - len(text)
		switch {
		case indent < 0 && text == "prices:":
			indent = here
		case indent < 0, text == "":
		case here > indent, here == indent && strings.HasPrefix(text, "- "):
			out = append(out, line[indent:])
		default:
			return strings.Join(out, "\n")
		}
	}
	return strings.Join(out, "\n")
}
