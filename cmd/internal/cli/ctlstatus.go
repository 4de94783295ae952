package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement"
)

type ctlStatusCmd struct{ watchFlags }

// Run shows what the fleet has, what of it is free, and what is wrong.
func (c *ctlStatusCmd) Run(ctx context.Context, streams Streams) error {
	return c.status(ctx, streams, "status", writeStatus)
}

type ctlModelsCmd struct{ watchFlags }

// Run shows the models that are placed.
func (c *ctlModelsCmd) Run(ctx context.Context, streams Streams) error {
	return c.status(ctx, streams, "models", writePlacedModels)
}

// status asks how everything stands: the tables of models are of the same answer.
func (f *watchFlags) status(ctx context.Context, streams Streams, verb string, text func(io.Writer, *apipb.GetStatusResponse) error) error {
	client, err := f.client()
	if err == nil {
		err = follow(ctx, f, streams, func(ctx context.Context) (*apipb.GetStatusResponse, error) {
			return client.Placement.GetStatus(ctx, &apipb.GetStatusRequest{})
		}, text)
	}
	if err != nil {
		return fmt.Errorf("ctl %s: %w", verb, err)
	}
	return nil
}

// writeStatus prints capacity, counts, and a line for each thing that a person
// should look at.
func writeStatus(w io.Writer, s *apipb.GetStatusResponse) error {
	w = printable{w}
	writeLeads(w, s.GetStanding())
	fmt.Fprintf(w, "nodes: %s\n", nodeCounts(s.GetNodes()))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.GetClasses()) > 0 {
		fmt.Fprint(t, "\nCLASS\tCARDS\t\tTAKEN\tFREE\tUNUSABLE\tAWAY\tOCCUPIED\tMEMORY USED\n")
	}
	for _, k := range s.GetClasses() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", cmp.Or(k.GetClass(), "not known"), bar(k), k.GetTotal(), k.GetTaken(), k.GetFree(),
			k.GetUnusable(), k.GetAway(), k.GetOccupied(), memoryUsed(k))
	}
	if len(s.GetFabrics()) > 0 {
		fmt.Fprint(t, "\nFABRIC\tNODES\tWHOLE FREE\tFREE CARDS\tHOLDS\tWEIGHTS OF\n")
	}
	for _, f := range s.GetFabrics() {
		nodes := fmt.Sprint(f.GetMembers())
		if n := f.GetContradicted(); n > 0 {
			nodes += fmt.Sprintf(", %d contradicted", n)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", f.GetFabric(), nodes, f.GetWholeFree(), f.GetFreeCards(), counts(f.GetHolds(), "-"), weightsThere(f.GetWeights()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.GetFabrics()) > 0 {
		fmt.Fprintln(w, "A model of several nodes needs whole free nodes of one fabric; free cards elsewhere are no capacity for it.")
	}
	writeCounts(w, s)
	for _, line := range statusTroubles(s) {
		fmt.Fprintf(w, "\n%s", line)
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// weightsThere writes whose weights a fabric has, and how often.
func weightsThere(list []*apipb.FabricWeights) string {
	var out []string
	for _, w := range list {
		var on []string
		if n := w.GetNodes(); n > 0 {
			on = append(on, several(n, "node"))
		}
		if n := w.GetFilers(); n > 0 {
			on = append(on, several(n, "filer"))
		}
		out = append(out, fmt.Sprintf("%s (%s)", w.GetModel(), strings.Join(on, ", ")))
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}

// writeLeads says who leads, and what is not known for that.
func writeLeads(w io.Writer, s *apipb.PlacementStanding) {
	if s.Term != nil {
		fmt.Fprintf(w, "cluster %s: this control plane gives orders, in term %d\n", s.GetCluster(), s.GetTerm())
	} else {
		fmt.Fprintf(w, "this control plane gives no orders: %s\n", cmp.Or(s.GetWhy(), "why is not known"))
	}
	if !s.GetReplicasKnown() {
		fmt.Fprintln(w, "which replicas there are is not known yet: the store was not read")
	}
}

// writeCounts sums up replicas and models.
func writeCounts(w io.Writer, s *apipb.GetStatusResponse) {
	if !s.GetStanding().GetReplicasKnown() {
		return
	}
	var states []string
	for _, c := range s.GetReplicas() {
		states = append(states, fmt.Sprintf("%d %s", c.GetCount(), stateWord(c.GetState())))
	}
	whole := 0
	for _, m := range s.GetModels() {
		if m.GetReady() >= m.GetWanted() {
			whole++
		}
	}
	fmt.Fprintf(w, "\nreplicas: %s\nmodels: %d of %d have all replicas that are wanted\n", cmp.Or(strings.Join(states, ", "), "none"), whole, len(s.GetModels()))
}

// statusTroubles are what a person should look at, a sentence each.
func statusTroubles(s *apipb.GetStatusResponse) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, k := range s.GetClasses() {
		for _, u := range k.GetUnusableWhy() {
			add("%s: %d unusable, %s (%s)", cmp.Or(k.GetClass(), "cards"), u.GetCount(), u.GetReason(), strings.Join(u.GetNodes(), ", "))
		}
	}
	for _, m := range s.GetModels() {
		out = append(out, modelTroubles(m, s.GetAt())...)
	}
	for _, r := range s.GetTroubled() {
		add("replica %s of %s is %s for %s%s", r.GetReplica(), r.GetModel(), stateWord(r.GetState()), since(s.GetAt(), r.GetSince()),
			replicaTrouble(r.GetReason(), r.GetHeld(), r.GetLeaving()))
	}
	for _, st := range s.GetStrays() {
		add("%s", strayTrouble(st, s.GetAt()))
	}
	for _, m := range s.GetModels() {
		if d := idleTime(m.GetIdleSeconds()); d >= unaskedFor {
			add("%s: nobody has asked for it for %s", m.GetName(), lasting(d))
		}
	}
	for _, m := range s.GetSetAside() {
		add("%s is set aside: %s", m.GetName(), orText(m.GetWhy(), "why is not known"))
	}
	for _, c := range s.GetCertificates() {
		add("certificate %s (%s) %s", c.GetName(), c.GetUse(), expiry(c.GetNotAfter(), s.GetAt()))
	}
	return out
}

// unaskedFor is for how long nobody asks for a model until that is told.
const unaskedFor = 15 * time.Minute

// modelTroubles are why a model has not what is wanted of it.
func modelTroubles(m *apipb.PlacedModel, at *timestamppb.Timestamp) []string {
	var out []string
	switch {
	case m.GetProblem() != "":
		out = append(out, fmt.Sprintf("%s cannot be run: %s", m.GetName(), m.GetProblem()))
	case m.GetUnplaced() != "" && !m.GetCouldEver():
		out = append(out, fmt.Sprintf("%s has no place, not even on empty nodes: %s", m.GetName(), m.GetUnplaced()))
	case m.GetUnplaced() != "":
		out = append(out, fmt.Sprintf("%s has no place: %s", m.GetName(), m.GetUnplaced()))
	}
	out = append(out, scalingTroubles(m)...)
	if m.GetFailures() > 0 {
		text := fmt.Sprintf("%s failed %s in a row: %s", m.GetName(), times(m.GetFailures()), cmp.Or(m.GetFailure(), "why is not known"))
		if m.GetNextTry() != nil {
			text += "; the next start is tried in " + since(m.GetNextTry(), at)
		}
		out = append(out, text)
	}
	return out
}

func times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func replicaTrouble(reason, held, leaving string) string {
	if held != "" {
		held = "it would be taken down, but works all the same: " + held
	}
	if leaving != "" {
		leaving = "it is to be replaced: " + leaving
	}
	if text := orText([]string{reason, held, leaving}, ""); text != "" {
		return ": " + text
	}
	return ""
}

// strayTrouble says of a shard that no row knows what becomes of it.
func strayTrouble(st *apipb.StrayShard, at *timestamppb.Timestamp) string {
	shard := st.GetStatus()
	text := fmt.Sprintf("node %s has shard %d of %s, which no replica on record knows, for %s: it is %s, gets no requests, and ", st.GetNode(), shard.GetRank(),
		shard.GetReplica(), since(at, st.GetSince()), cmp.Or(shard.GetState(), "in a state that is not known"))
	if st.GetHeld() != "" {
		return text + "ends when it has none left: " + st.GetHeld()
	}
	return text + "is being ended"
}

func expiry(end, at *timestamppb.Timestamp) string {
	day := end.AsTime().UTC().Format(time.DateOnly)
	if left := end.AsTime().Sub(at.AsTime()); left > 0 {
		return fmt.Sprintf("expires in %s, on %s", lasting(left), day)
	}
	return "has expired on " + day
}

// writePlacedModels prints a line a model, and below them why some have not what
// is wanted.
func writePlacedModels(w io.Writer, s *apipb.GetStatusResponse) error {
	w = printable{w}
	if s.GetStanding().Term == nil || !s.GetStanding().GetReplicasKnown() {
		writeLeads(w, s.GetStanding())
	}
	if len(s.GetModels()) == 0 {
		_, err := fmt.Fprintln(w, "no model of the catalog has a profile, so nothing is placed; llmgw ctl model list shows the catalog")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tSTATE\tWANTED\tOF\tREADY\tCOMING\tLEAVING\tLOST\tASLEEP\tFULL\tWAITING\tIDLE\tNEXT TRY")
	for _, m := range s.GetModels() {
		next := "-"
		if m.GetNextTry() != nil {
			next = since(m.GetNextTry(), s.GetAt())
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%s\n", m.GetName(), standing(m.GetScaling()), m.GetWanted(), bounds(m.GetScaling()),
			m.GetReady(), m.GetComing(), m.GetLeaving(), m.GetLost(), m.GetAsleep(), full(m.GetScaling()), m.GetScaling().GetWaiting()+m.GetScaling().GetQueued(), idle(m.GetIdleSeconds()), next)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range s.GetModels() {
		for _, line := range modelTroubles(m, s.GetAt()) {
			fmt.Fprintf(w, "\n%s", line)
		}
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// standing is how a model stands for who asks for it, in a word.
func standing(s *apipb.PlacedScaling) string {
	if s.GetState() == apipb.ModelStanding_MODEL_STANDING_UNSPECIFIED {
		return "-"
	}
	return strings.ToLower(strings.TrimPrefix(s.GetState().String(), "MODEL_STANDING_"))
}

// bounds are between how many replicas a model runs now.
func bounds(s *apipb.PlacedScaling) string {
	switch {
	case s == nil:
		return "-"
	case s.GetFloor() == s.GetMax():
		return fmt.Sprint(s.GetMax())
	}
	return fmt.Sprintf("%d-%d", s.GetFloor(), s.GetMax())
}

// full is how full a model's replicas are.
func full(s *apipb.PlacedScaling) string {
	if s == nil || s.Load == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*s.GetLoad())
}

// scalingText says what the number of a model's replicas is by; "": nothing to say.
func scalingText(m *apipb.PlacedModel, at *timestamppb.Timestamp) string {
	s := m.GetScaling()
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("it is %s; %d of %s wanted for %s: %s", standing(s), m.GetWanted(), bounds(s), since(at, s.GetSince()), s.GetWhy())
	if s.GetPrewarm() != "" {
		text += fmt.Sprintf("; the schedule %q holds %d", s.GetPrewarm(), s.GetFloor())
	}
	if d := idleTime(s.GetAskedSeconds()); d >= 0 {
		text += "; last asked for " + lasting(d) + " ago"
	}
	if d := idleTime(s.GetLoadSeconds()); d >= 0 {
		text += "; a load takes " + lasting(d)
	}
	return text
}

// scalingTroubles are what of a model's scaling a person should look at.
func scalingTroubles(m *apipb.PlacedModel) (out []string) {
	s := m.GetScaling()
	if n := s.GetThrashed(); n > 0 {
		out = append(out, fmt.Sprintf("%s was loaded again %s within 10m of making room for another model: more is asked for than the cards hold", m.GetName(), times(n)))
	}
	idles, loads := idleTime(s.GetIdleTimeoutSeconds()), idleTime(s.GetLoadSeconds())
	if s.GetFloor() < s.GetMax() && loads > idles {
		out = append(out, fmt.Sprintf("%s: a load takes %s, and it is stopped after %s without use; raise scaling.idle_timeout", m.GetName(), lasting(loads), lasting(idles)))
	}
	return out
}

// bar shows what cards of a class are: # taken, o occupied by others, x unusable,
// - away, . free. What there is of has at least one.
func bar(k *apipb.CardClass) string {
	const width = 20
	parts := []struct {
		sign string
		n    uint32
	}{{"#", k.GetTaken()}, {"o", k.GetOccupied()}, {"x", k.GetUnusable()}, {"-", k.GetAway()}, {".", k.GetFree()}}
	lengths, left, largest := make([]int, len(parts)), width, 0
	for i, p := range parts {
		if p.n > 0 {
			lengths[i] = max(1, int(p.n)*width/int(max(k.GetTotal(), 1)))
		}
		left -= lengths[i]
		if lengths[i] > lengths[largest] {
			largest = i
		}
	}
	lengths[largest] = max(lengths[largest]+left, 0) // what rounding left or took
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(strings.Repeat(p.sign, lengths[i]))
	}
	return "[" + b.String() + "]"
}

func memoryUsed(k *apipb.CardClass) string {
	if k.MemoryBytes == nil || k.MemoryUsedBytes == nil || k.GetMemoryBytes() == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", int(100*float64(k.GetMemoryUsedBytes())/float64(k.GetMemoryBytes())))
}

// counts writes "3 ready, 1 lost".
func counts(list []*apipb.NamedCount, none string) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%d %s", c.GetCount(), c.GetName()))
	}
	return cmp.Or(strings.Join(parts, ", "), none)
}

// nodeCounts writes "1 lost, 4 ready; of these 1 draining": how many nodes are in
// each state, and what else is said of some of them, so that none is added twice.
func nodeCounts(list []*apipb.NamedCount) string {
	var states, also []*apipb.NamedCount
	for _, c := range list {
		switch c.GetName() {
		case placement.Cordoned.String(), placement.Draining.String(), "not connected":
			also = append(also, c)
		default:
			states = append(states, c)
		}
	}
	text := counts(states, "none has registered yet")
	if len(also) > 0 {
		text += "; of these " + counts(also, "")
	}
	return text
}

// stateWord is a replica's state in a word.
func stateWord(s apipb.ReplicaState) string {
	if s == apipb.ReplicaState_REPLICA_STATE_UNSPECIFIED {
		return "in a state that is not known"
	}
	return strings.ToLower(strings.TrimPrefix(s.String(), "REPLICA_STATE_"))
}

// idleTime is an idle time of the API's; negative: not known.
func idleTime(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// idle is an idle time for people.
func idle(seconds float64) string {
	if seconds < 0 {
		return "-"
	}
	return lasting(idleTime(seconds))
}

// lasting is a time for people.
func lasting(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
