package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// gang is the best place for a replica of several ranks in one fabric, with
// cards of one class, or how far it is from there being one.
type gang struct {
	fabric, class string
	byType        [][]option // the nodes that fit, by the types of ranks, the best first
	fits          int        // nodes that fit some rank
	short         int        // ranks for which there is no node
	ranks         []*option  // by rank; nil while short
	score         Score
}

func (g *gang) nodes() []string {
	out := make([]string, len(g.ranks))
	for i, o := range g.ranks {
		out[i] = o.entry.node.ID
	}
	slices.Sort(out)
	return out
}

// what names the gang's cards.
func (g *gang) what() string { return cmp.Or(g.class, "no cards") }

// form finds the best gang of each fabric and class, by their names. A fabric has
// at least one.
func (s *search) form() {
	type at struct{ fabric, class string }
	found := make(map[at]*gang)
	classes := make(map[string][]*gang) // by fabric
	open := func(fabric, class string) *gang {
		g := found[at{fabric, class}]
		if g == nil {
			g = &gang{fabric: fabric, class: class, byType: make([][]option, len(s.types))}
			found[at{fabric, class}] = g
			classes[fabric] = append(classes[fabric], g)
		}
		return g
	}
	filers := s.filers()
	// Ranks with cards first: those without go with each class.
	for _, carded := range []bool{true, false} {
		for i := range s.options {
			o := s.options[i]
			if carded != (s.types[o.typ].need.Cards > 0) {
				continue
			}
			for j := range o.entry.node.Fabrics {
				if !s.joins(o.entry, j) {
					continue
				}
				f := &o.entry.node.Fabrics[j]
				in := o
				s.rateIn(&in, f, filers[f.Name])
				if carded {
					g := open(f.Name, o.class)
					g.byType[o.typ] = append(g.byType[o.typ], in)
					continue
				}
				if len(classes[f.Name]) == 0 {
					open(f.Name, "")
				}
				for _, g := range classes[f.Name] {
					g.byType[o.typ] = append(g.byType[o.typ], in)
				}
			}
		}
	}
	for _, e := range s.cluster.entries {
		for i := range e.node.Fabrics {
			if name := e.node.Fabrics[i].Name; len(classes[name]) == 0 {
				open(name, "")
			}
		}
	}
	for _, g := range found {
		s.fill(g)
		s.gangs = append(s.gangs, g)
	}
	slices.SortFunc(s.gangs, func(a, b *gang) int {
		return cmp.Or(strings.Compare(a.fabric, b.fabric), strings.Compare(a.class, b.class))
	})
}

// rateIn completes an option's score with what depends on the fabric.
func (s *search) rateIn(o *option, f *FabricMember, filer bool) {
	if s.empty {
		return
	}
	if f.Verdict != engines.Confirmed {
		o.score[FabricUnconfirmed] = 1
	}
	if filer {
		o.score[WeightsMissing] = 0
	}
	if o.score[WholeNodesBroken] > 0 {
		o.score[WholeNodesInFabric] = int32(s.cluster.whole[f.Name])
	}
}

// filers returns the fabrics in which some node sees the weights on a shared
// filer.
func (s *search) filers() map[string]bool {
	if s.wish.WeightsKey == "" || s.empty {
		return nil
	}
	out := make(map[string]bool)
	for _, e := range s.cluster.entries {
		if e.node.WeightsShared[s.wish.WeightsKey] == "" {
			continue
		}
		for i := range e.node.Fabrics {
			if s.joins(e, i) {
				out[e.node.Fabrics[i].Name] = true
			}
		}
	}
	return out
}

// fill finds the best nodes for the ranks of a gang, or how many are missing.
func (s *search) fill(g *gang) {
	for _, options := range g.byType {
		slices.SortFunc(options, compareOptions)
	}
	if len(s.types) == 1 {
		g.fits = len(g.byType[0])
		g.short = max(0, len(s.wish.Need.Ranks)-g.fits)
		if g.short == 0 {
			s.seat(g, [][]*option{pointers(g.byType[0][:len(s.wish.Need.Ranks)])})
		}
		return
	}
	chosen, short := s.match(g)
	if g.short = short; short == 0 {
		s.seat(g, chosen)
	}
}

// seat gives the ranks of each type their nodes in the order of the nodes' IDs.
func (s *search) seat(g *gang, chosen [][]*option) {
	g.ranks = make([]*option, len(s.wish.Need.Ranks))
	for typ, options := range chosen {
		slices.SortFunc(options, func(a, b *option) int { return a.at - b.at })
		for i, rank := range s.types[typ].ranks {
			g.ranks[rank] = options[i]
			g.score.add(&options[i].score)
		}
	}
}

// match finds the best nodes for ranks that do not all take the same: the
// cheapest assignment of ranks to nodes.
func (s *search) match(g *gang) (chosen [][]*option, short int) {
	ranks := len(s.wish.Need.Ranks)
	var rows []int // the type of each rank, in some order
	for typ, t := range s.types {
		for range t.ranks {
			rows = append(rows, typ)
		}
	}
	// Of each type no more nodes are needed than there are ranks: if a rank had a
	// worse one, one of these would be left over for it.
	var columns []*entry
	known := make(map[*entry]int)
	fits := make(map[*entry]bool)
	at := make([]map[int]*option, len(s.types))
	for typ, options := range g.byType {
		at[typ] = make(map[int]*option)
		for i := range options {
			fits[options[i].entry] = true
			if i >= ranks {
				continue
			}
			e := options[i].entry
			if _, seen := known[e]; !seen {
				known[e] = len(columns)
				columns = append(columns, e)
			}
			at[typ][known[e]] = &options[i]
		}
	}
	g.fits = len(fits)
	seats, short := assign(ranks, len(columns), func(row, column int) *Score {
		if o := at[rows[row]][column]; o != nil {
			return &o.score
		}
		return nil
	})
	if short > 0 {
		return nil, short
	}
	chosen = make([][]*option, len(s.types))
	for row, column := range seats {
		chosen[rows[row]] = append(chosen[rows[row]], at[rows[row]][column])
	}
	return chosen, 0
}

func pointers(options []option) []*option {
	out := make([]*option, len(options))
	for i := range options {
		out[i] = &options[i]
	}
	return out
}

// standings says of each fabric how far its best class of cards is from holding
// the gang.
func (s *search) standings() []Standing {
	var out []Standing
	for _, g := range s.gangs {
		st := Standing{
			Fabric: g.fabric, Class: g.class, WholeFree: s.cluster.whole[g.fabric],
			Needs: len(s.wish.Need.Ranks), Fits: g.fits, Short: g.short,
			need: &s.wish.Need, weights: s.wish.WeightsKey != "" && !s.empty, empty: s.empty,
		}
		if len(out) > 0 && out[len(out)-1].Fabric == g.fabric {
			if last := &out[len(out)-1]; g.short < last.Short || (g.short == last.Short && g.fits > last.Fits) {
				*last = st
			}
			continue
		}
		out = append(out, st)
	}
	type source struct{ fabric, filer string }
	filers := make(map[source]bool)
	of := make(map[string]*Standing, len(out))
	for i := range out {
		of[out[i].Fabric] = &out[i]
	}
	for _, e := range s.cluster.entries {
		for i := range e.node.Fabrics {
			if !e.first(i) {
				continue
			}
			f := &e.node.Fabrics[i]
			st := of[f.Name]
			st.Members++
			if f.Verdict == engines.Contradicted {
				st.Contradicted++
				continue
			}
			if s.wish.WeightsKey == "" {
				continue
			}
			if e.node.Weights[s.wish.WeightsKey] == Holds {
				st.WeightSources++
			}
			if filer := (source{f.Name, e.node.WeightsShared[s.wish.WeightsKey]}); filer.filer != "" && !filers[filer] {
				filers[filer] = true
				st.WeightSources++
			}
		}
	}
	return out
}
