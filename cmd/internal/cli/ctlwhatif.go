package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

type whatIfCmd struct {
	ctlFlags
	Drain      []string `placeholder:"NODE" help:"What if this node were drained? Can be given again."`
	RemoveNode []string `placeholder:"NODE" help:"What if this node were gone at once? Can be given again."`
	AddNode    []string `placeholder:"[ID=]FILE" sep:"none" help:"What if a node like this came? The file is the JSON of llmgw ctl nodes NODE --json, or an inventory alone. Default ID: the file's name. Can be given again."`
	AddModel   string   `placeholder:"FILE" help:"What if these models were wanted? The file is as for llmgw ctl model add; - is standard input."`
}

// maxInventoryBytes bounds the file of a node.
const maxInventoryBytes = 4 << 20

// Run says what a change would come to.
func (c *whatIfCmd) Run(ctx context.Context, streams Streams) error {
	if err := c.ask(ctx, streams); err != nil {
		return fmt.Errorf("ctl what-if: %w", err)
	}
	return nil
}

func (c *whatIfCmd) ask(ctx context.Context, streams Streams) error {
	req := &apipb.WhatIfRequest{Drain: c.Drain, Remove: c.RemoveNode}
	for _, name := range c.AddNode {
		node, err := newNode(streams, name)
		if err != nil {
			return err
		}
		req.AddNodes = append(req.AddNodes, node)
	}
	if c.AddModel != "" {
		text, err := input(streams, c.AddModel, "the models", api.MaxDefinitionBytes)
		if err != nil {
			return err
		}
		req.AddModels, req.AddModelsFile = string(text), c.AddModel
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Placement.WhatIf(ctx, req)
	if err != nil {
		return c.failed(err)
	}
	return show(&c.ctlFlags, streams.Out, resp, writeForecast)
}

// newNode reads a node that would come from a file: an answer of GetNode, or an
// inventory.
func newNode(streams Streams, name string) (*apipb.WhatIfNode, error) {
	id, file, named := strings.Cut(name, "=")
	if !named || strings.ContainsAny(id, "/.") {
		file = name
		id = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if file == "-" {
			id = "new"
		}
	}
	text, err := input(streams, file, "the node", maxInventoryBytes)
	if err != nil {
		return nil, err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, fmt.Errorf("%s: %w; want the JSON of llmgw ctl nodes NODE --json, or an inventory", file, err)
	}
	out := &apipb.WhatIfNode{Id: id}
	if parts["node"] == nil {
		if parts["gpus"] == nil && parts["cpu"] == nil {
			return nil, fmt.Errorf("%s: neither node nor gpus or cpu is in it; want the JSON of llmgw ctl nodes NODE --json, or an inventory", file)
		}
		out.Inventory = new(structpb.Struct)
		if err := protojson.Unmarshal(text, out.GetInventory()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return out, nil
	}
	var node apipb.GetNodeResponse
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &node); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if out.Inventory = node.GetInventory(); out.GetInventory() == nil {
		return nil, fmt.Errorf("%s: it has no inventory: what hardware the node has was not known", file)
	}
	out.Labels = node.GetNode().GetLabels()
	for _, e := range node.GetNode().GetEngines() {
		if e.GetProblem() == "" {
			out.Engines = append(out.Engines, e.GetEngine())
		}
	}
	return out, nil
}

// writeForecast prints what moves and where to, what has no place and why, and
// what is free then.
func writeForecast(w io.Writer, r *apipb.WhatIfResponse) error {
	w = printable{w}
	if r.GetStanding().Term == nil || !r.GetStanding().GetReplicasKnown() {
		writeLeads(w, r.GetStanding())
	}
	for _, line := range r.GetWarnings() {
		fmt.Fprintf(w, "note: %s\n", line)
	}
	stay := 0
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, replica := range r.GetReplicas() {
		if replica.GetFate() == apipb.ReplicaFate_REPLICA_FATE_STAYS {
			stay++
			continue
		}
		to := "-"
		if replica.GetDecision().GetPlaced() {
			to = telling.Place(replica.GetDecision())
		}
		fmt.Fprintf(t, "%s\t%s\tfrom %s\tto %s\t%s\n", replica.GetReplica(), fate(replica.GetFate()), telling.Places(replica.GetFrom()), to, replica.GetWhy())
	}
	for _, n := range r.GetNew() {
		switch {
		case n.GetDecision().GetPlaced():
			fmt.Fprintf(t, "%s\t%s\t\tto %s\t\n", n.GetModel(), newWord(n), telling.Place(n.GetDecision()))
		default:
			fmt.Fprintf(t, "%s\t%s\t\tto -\t\n", n.GetModel(), newWord(n))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d of %d replicas stay as they are\n", stay, len(r.GetReplicas()))
	writeHomeless(w, r)
	writeCapacityChange(w, r.GetBefore(), r.GetAfter())
	return nil
}

// fate is what becomes of a replica, for people.
func fate(f apipb.ReplicaFate) string {
	switch f {
	case apipb.ReplicaFate_REPLICA_FATE_STAYS:
		return "stays"
	case apipb.ReplicaFate_REPLICA_FATE_MOVES:
		return "moves"
	case apipb.ReplicaFate_REPLICA_FATE_MOVES_AFTER_END:
		return "moves, and does not serve in between"
	case apipb.ReplicaFate_REPLICA_FATE_NO_PLACE:
		return "finds no place"
	case apipb.ReplicaFate_REPLICA_FATE_ENDS:
		return "ends, as one more than is wanted"
	case apipb.ReplicaFate_REPLICA_FATE_LEAVES:
		return "leaves anyway"
	case apipb.ReplicaFate_REPLICA_FATE_UNSPECIFIED:
	}
	return "not known"
}

// newWord is what becomes of a replica that is missing, for people.
func newWord(n *apipb.WhatIfNew) string {
	what := "is missing, "
	if n.GetAdded() {
		what = "new, "
	}
	switch {
	case !n.GetDecision().GetPlaced() && n.GetBefore() != "":
		return what + "has no place still"
	case !n.GetDecision().GetPlaced():
		return what + "finds no place"
	case n.GetBefore() != "":
		return what + "finds a place that it has not now"
	}
	return what + "finds a place"
}

// writeHomeless says why there is no place for what finds none.
func writeHomeless(w io.Writer, r *apipb.WhatIfResponse) {
	for _, replica := range r.GetReplicas() {
		if replica.GetFate() == apipb.ReplicaFate_REPLICA_FATE_NO_PLACE {
			writeNoPlace(w, replica.GetReplica(), replica.GetDecision())
		}
	}
	for _, n := range r.GetNew() {
		switch {
		case n.GetProblem() != "":
			fmt.Fprintf(w, "\n%s cannot be run: %s\n", n.GetModel(), n.GetProblem())
		case !n.GetDecision().GetPlaced():
			writeNoPlace(w, n.GetModel(), n.GetDecision())
		}
	}
}

func writeNoPlace(w io.Writer, who string, d *apipb.PlacementDecision) {
	fmt.Fprintf(w, "\n%s: %s\n", who, d.GetWhy())
	for _, f := range d.GetFabrics() {
		fmt.Fprintf(w, "  %s\n", f.GetText())
	}
}

// writeCapacityChange prints what is free before and after.
func writeCapacityChange(w io.Writer, before, after *apipb.PlacementCapacity) {
	fmt.Fprint(w, "\n")
	class := func(c *apipb.PlacementCapacity, name string) *apipb.CardClass {
		for _, k := range c.GetClasses() {
			if k.GetClass() == name {
				return k
			}
		}
		return nil
	}
	fabric := func(c *apipb.PlacementCapacity, name string) *apipb.FabricStatus {
		for _, f := range c.GetFabrics() {
			if f.GetFabric() == name {
				return f
			}
		}
		return nil
	}
	for _, name := range names(before.GetClasses(), after.GetClasses(), (*apipb.CardClass).GetClass) {
		was, is := class(before, name), class(after, name)
		fmt.Fprintf(w, "%s: %d free of %d cards, then %d of %d\n", name, was.GetFree(), was.GetTotal(), is.GetFree(), is.GetTotal())
	}
	for _, name := range names(before.GetFabrics(), after.GetFabrics(), (*apipb.FabricStatus).GetFabric) {
		was, is := fabric(before, name), fabric(after, name)
		fmt.Fprintf(w, "fabric %s: %d whole free nodes of %d, then %d of %d\n", name, was.GetWholeFree(), was.GetMembers(), is.GetWholeFree(), is.GetMembers())
	}
}

// names are those of two lists that are by name, each once.
func names[T any](a, b []T, name func(T) string) []string {
	seen := make(map[string]bool)
	var out []string
	for _, list := range [][]T{a, b} {
		for _, item := range list {
			if n := name(item); !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}
