package placement

import (
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Capacity is what a fleet has, and what of it is free.
type Capacity struct {
	// Classes are by name, Fabrics too.
	Classes []ClassCapacity
	Fabrics []FabricCapacity
	// WholeFree is how many nodes with cards are ready, with all cards free.
	WholeFree int
}

// ClassCapacity is the cards of one class: Total is the sum of the others.
type ClassCapacity struct {
	Class string
	Total int
	// Unusable may not be used, whoever claims them. They are neither taken nor
	// free.
	Unusable int
	// Taken are claimed by replicas.
	Taken int
	// Away are free, on nodes that take nothing now.
	Away int
	// Occupied are free of replicas, and others hold more of their memory than a
	// card that is wholly free may lack ([WholeCardRatio]).
	Occupied int
	// Free are wholly free, on nodes that take replicas.
	Free int
}

// FabricCapacity is what gangs can have of a fabric. Free cards elsewhere are no
// capacity for them.
type FabricCapacity struct {
	Fabric string
	// Members are its nodes; Contradicted are those whose ports deny it.
	Members, Contradicted int
	// WholeFree are the others that are ready, with all cards free.
	WholeFree int
	// FreeCards are wholly free, on members that take replicas and are not
	// contradicted: of whole nodes and of others.
	FreeCards int
}

// Capacity returns what the fleet has, and what of it is free.
func (c *Cluster) Capacity() Capacity {
	var out Capacity
	classes, fabrics := make(map[string]*ClassCapacity), make(map[string]*FabricCapacity)
	for _, e := range c.entries {
		if e.takes && e.whole {
			out.WholeFree++
		}
		for i := range e.node.Cards {
			name := e.node.Cards[i].Class
			if classes[name] == nil {
				classes[name] = &ClassCapacity{Class: name}
			}
			classes[name].count(e, i)
		}
		for i := range e.node.Fabrics {
			f := &e.node.Fabrics[i]
			if !e.first(i) {
				continue
			}
			if fabrics[f.Name] == nil {
				fabrics[f.Name] = &FabricCapacity{Fabric: f.Name, WholeFree: c.whole[f.Name]}
			}
			fabrics[f.Name].Members++
			if f.Verdict == engines.Contradicted {
				fabrics[f.Name].Contradicted++
			} else {
				fabrics[f.Name].FreeCards += e.freeWhole()
			}
		}
	}
	for _, class := range classes {
		out.Classes = append(out.Classes, *class)
	}
	for _, fabric := range fabrics {
		out.Fabrics = append(out.Fabrics, *fabric)
	}
	slices.SortFunc(out.Classes, func(a, b ClassCapacity) int { return strings.Compare(a.Class, b.Class) })
	slices.SortFunc(out.Fabrics, func(a, b FabricCapacity) int { return strings.Compare(a.Fabric, b.Fabric) })
	return out
}

// freeWhole is how many cards are wholly free on a node that takes replicas.
func (e *entry) freeWhole() (n int) {
	for i := range e.node.Cards {
		if e.takes && e.node.Cards[i].Problem == "" && e.owners[i] == nil && e.rooms[i].whole() {
			n++
		}
	}
	return n
}

func (c *ClassCapacity) count(e *entry, i int) {
	c.Total++
	switch {
	case e.node.Cards[i].Problem != "":
		c.Unusable++
	case e.owners[i] != nil:
		c.Taken++
	case !e.takes:
		c.Away++
	case !e.rooms[i].whole():
		c.Occupied++
	default:
		c.Free++
	}
}
