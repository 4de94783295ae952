package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// mostTroubles is how many sentences of a kind the overview has, and mostFabrics how
// many fabrics.
const (
	mostTroubles = 6
	mostFabrics  = 12
)

// group is a list of sentences with what they are about.
type group struct {
	Title string
	Kind  webui.Kind
	some
}

// overviewView is how everything stands.
type overviewView struct {
	Placed                  bool // there is a control plane that was read
	Leads                   []string
	Standing                webui.Status
	Nodes, Replicas, Models string
	Classes                 []classView
	Legend                  []legendEntry
	WholeFree               uint32
	Fabrics                 []fabricView
	MoreFabrics             int
	Groups                  []group
	Unasked, NotKnown       some // models that nobody asks for, and of which that is not known
	HasUnasked              bool
	Certificates            []certificateView

	Traffic bool
	Ten     rate // requests over ten seconds
	Minute  rate
	Flight  string
	Waiting string
}

// Requested is how many requests ended a second, over both times.
func (v overviewView) Requested() string { return overBoth(v.Ten.Requested(), v.Minute.Requested()) }

// Written is how many tokens engines wrote a second, over both times.
func (v overviewView) Written() string { return overBoth(v.Ten.Written(), v.Minute.Written()) }

// Failures is how many requests failed a second, over both times.
func (v overviewView) Failures() string { return overBoth(v.Ten.Failures(), v.Minute.Failures()) }

// overBoth says what a rate is over ten seconds and a minute; one that is not known is
// left out. A time and its unit stay on one line.
func overBoth(ten, minute string) string {
	var parts []string
	if ten != "-" {
		parts = append(parts, ten+" over\u00a010\u00a0s")
	}
	if minute != "-" {
		parts = append(parts, minute+" over\u00a01\u00a0min")
	}
	if len(parts) == 0 {
		return "not known yet"
	}
	return strings.Join(parts, ", ")
}

// classView is a class of cards.
type classView struct {
	Name string
	Bar  template.HTML
	*apipb.CardClass
	Square string     // how many cards a square of Bar is; empty: one
	Memory *webui.Bar // nil: not known
}

// certificateView is a certificate of the server's.
type certificateView struct {
	Name, Use string
	Status    webui.Status
}

// overview shows how everything stands.
func (c *Console) overview(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	var missing []string
	v := overviewView{Legend: legend()}
	if c.deps.Placement != nil {
		if s, ok := ask(r.Context(), c, &missing, "the fleet", c.deps.Placement.GetStatus, &apipb.GetStatusRequest{}); ok {
			v.placed(s, c.deps.Root)
		}
	}
	if c.deps.Traffic != nil {
		now := c.deps.Now()
		v.Traffic, v.Ten, v.Minute = true, c.history.over(now, shortly, ofAll), c.history.over(now, time.Minute, ofAll)
		v.Flight, v.Waiting = totals(c.deps.Traffic.Traffic())
	}
	return c.show(w, r, "overview.html", "Overview", missing, v)
}

// placed is what an answer says.
func (v *overviewView) placed(s *apipb.GetStatusResponse, root string) {
	v.Placed, v.Leads, v.Standing = true, telling.Leads(s.GetStanding()), standing(s.GetStanding())
	v.Nodes, v.WholeFree = telling.NodeCounts(s.GetNodes()), s.GetWholeFreeNodes()
	v.Replicas, v.Models = "not known", "not known"
	if s.GetStanding().GetReplicasKnown() {
		v.Replicas, v.Models = telling.ReplicaCounts(s), telling.ModelCounts(s)
	}
	for _, k := range s.GetClasses() {
		v.Classes = append(v.Classes, classOf(k))
	}
	fabrics := sortedFabrics(s)
	for _, f := range fabrics[:min(mostFabrics, len(fabrics))] {
		v.Fabrics = append(v.Fabrics, fabricOf(f))
	}
	v.MoreFabrics = len(fabrics) - len(v.Fabrics)
	t := telling.StatusTroubles(s)
	add := func(title string, kind webui.Kind, list []string, link string) {
		if len(list) > 0 {
			v.Groups = append(v.Groups, group{title, kind, first(list, mostTroubles, link)})
		}
	}
	add("Replicas in trouble", webui.Bad, t.Replicas, root+"replicas")
	add("Models that have not what is wanted of them", webui.Bad, t.Models, root+"models")
	add("Cards that may not be used", webui.Warn, t.Cards, root+"nodes")
	add("Shards that no replica knows", webui.Warn, t.Strays, "")
	add("Models that are set aside", webui.Warn, t.SetAside, root+"models")
	v.unasked(s, root)
	for _, k := range s.GetCertificates() {
		v.Certificates = append(v.Certificates, certificateOf(k, s))
	}
}

// unasked lists the models that run and that nobody asks for, those for the longest
// time first, and those of which that is not known.
func (v *overviewView) unasked(s *apipb.GetStatusResponse, root string) {
	var idle []*apipb.PlacedModel
	var unknown []string
	for _, m := range s.GetModels() {
		switch {
		case m.GetIdleSeconds() >= telling.UnaskedFor.Seconds():
			idle = append(idle, m)
		case m.GetIdleSeconds() < 0 && m.GetReady() > 0:
			unknown = append(unknown, m.GetName())
		}
	}
	slices.SortStableFunc(idle, func(a, b *apipb.PlacedModel) int { return cmp.Compare(b.GetIdleSeconds(), a.GetIdleSeconds()) })
	texts := make([]string, 0, len(idle))
	for _, m := range idle {
		texts = append(texts, fmt.Sprintf("%s: nobody has asked for it for %s", m.GetName(), telling.Idle(m.GetIdleSeconds())))
	}
	v.Unasked, v.NotKnown = first(texts, mostTroubles, root+"models"), first(unknown, mostTroubles, root+"models")
	v.HasUnasked = len(texts)+len(unknown) > 0
}

// standing is whether orders are given, as a mark.
func standing(s *apipb.PlacementStanding) webui.Status {
	switch {
	case s == nil || s.Term == nil:
		return webui.Status{Kind: webui.Warn, Text: "gives no orders"}
	case !s.GetReplicasKnown():
		return webui.Status{Kind: webui.Busy, Text: "leads, and reads its store"}
	}
	return webui.Status{Kind: webui.Good, Text: "leads"}
}

func classOf(k *apipb.CardClass) classView {
	v := classView{Name: cmp.Or(k.GetClass(), "not known"), Bar: classBar(k), Square: squareOf(k), CardClass: k}
	if text := telling.MemoryUsed(k); text != "-" {
		v.Memory = &webui.Bar{Label: "memory of " + v.Name + " in use", Used: float64(k.GetMemoryUsedBytes()), Of: float64(k.GetMemoryBytes()), Text: text}
	}
	return v
}

const (
	// soon and near are how long a certificate has to be good for.
	soon = 30 * 24 * time.Hour
	near = 7 * 24 * time.Hour
)

func certificateOf(k *apipb.CertificateExpiry, s *apipb.GetStatusResponse) certificateView {
	v := certificateView{Name: k.GetName(), Use: k.GetUse(), Status: webui.Status{Kind: webui.Good, Text: telling.Expiry(k.GetNotAfter(), s.GetAt())}}
	switch left := k.GetNotAfter().AsTime().Sub(s.GetAt().AsTime()); {
	case left < near:
		v.Status.Kind = webui.Bad
	case left < soon:
		v.Status.Kind = webui.Warn
	}
	return v
}

// fabricView is a fabric.
type fabricView struct {
	Name, Nodes              string
	Status                   webui.Status
	Members, WholeFree, Free uint32
	Picture                  template.HTML // its nodes: wholly free, or not, or those that deny it
	Holds, Weights           string
}

// maxHeld bounds what a row says of the models in a fabric, in bytes.
const maxHeld = 600

func fabricOf(f *apipb.FabricStatus) fabricView {
	v := fabricView{
		Name: f.GetFabric(), Nodes: fmt.Sprint(f.GetMembers()), Members: f.GetMembers(), WholeFree: f.GetWholeFree(), Free: f.GetFreeCards(),
		Holds: short(telling.Counts(f.GetHolds(), "-"), maxHeld), Weights: short(telling.FabricWeights(f.GetWeights()), maxHeld), Picture: membersOf(f),
	}
	if n := f.GetContradicted(); n > 0 {
		v.Nodes += fmt.Sprintf(", %d contradicted", n)
		v.Status = webui.Status{Kind: webui.Warn, Text: fmt.Sprintf("%d contradicted", n)}
	}
	return v
}

// membersOf draws the nodes of a fabric, a square each, or a share of them where there
// are many.
func membersOf(f *apipb.FabricStatus) template.HTML {
	const width = 24
	n, denied := f.GetMembers(), min(f.GetContradicted(), f.GetMembers())
	free := min(f.GetWholeFree(), n-denied)
	shares := telling.Shares(&apipb.CardClass{Total: n, Free: free, Unusable: denied, Taken: n - denied - free}, int(min(n, width)))
	var states []card
	for i, state := range map[int]card{telling.ShareTaken: cardTaken, telling.ShareUnusable: cardUnusable, telling.ShareFree: cardFree} {
		states = append(states, slices.Repeat([]card{state}, shares[i])...)
	}
	slices.Sort(states)
	return cells(states, width, fmt.Sprintf("of %d nodes %d are wholly free, %d are not, and the ports of %d deny it", n, free, n-denied-free, denied))
}

// sortedFabrics are the fabrics, those with members that deny it first, then by name.
func sortedFabrics(s *apipb.GetStatusResponse) []*apipb.FabricStatus {
	out := slices.Clone(s.GetFabrics())
	slices.SortStableFunc(out, func(a, b *apipb.FabricStatus) int {
		return cmp.Or(cmp.Compare(b.GetContradicted(), a.GetContradicted()), strings.Compare(a.GetFabric(), b.GetFabric()))
	})
	return out
}

// fabricsView is all fabrics.
type fabricsView struct {
	List      list
	Fabrics   []fabricView
	WholeFree uint32
	Known     bool
}

// fabrics shows what each fabric has free and holds.
func (c *Console) fabrics(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	var missing []string
	l, page := asked(r, "fabrics")
	v := fabricsView{}
	if s, ok := ask(r.Context(), c, &missing, "the fabrics", c.deps.Placement.GetStatus, &apipb.GetStatusRequest{}); ok {
		v.Known, v.WholeFree = true, s.GetWholeFreeNodes()
		for _, f := range cut(&l, page, c.cfg.Rows, sortedFabrics(s), func(b *strings.Builder, f *apipb.FabricStatus) {
			words(b, f.GetFabric())
			for _, h := range f.GetHolds() {
				words(b, h.GetName())
			}
		}) {
			v.Fabrics = append(v.Fabrics, fabricOf(f))
		}
	}
	v.List = l
	return c.show(w, r, "fabrics.html", "Fabrics", missing, v)
}
