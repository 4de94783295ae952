package telling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// FabricWeights writes whose weights a fabric has, and how often.
func FabricWeights(list []*apipb.FabricWeights) string {
	var out []string
	for _, w := range list {
		var on []string
		if n := w.GetNodes(); n > 0 {
			on = append(on, Several(n, "node"))
		}
		if n := w.GetFilers(); n > 0 {
			on = append(on, Several(n, "filer"))
		}
		out = append(out, fmt.Sprintf("%s (%s)", w.GetModel(), strings.Join(on, ", ")))
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}

// Leads says who gives orders, and what is not known for that, a sentence each.
func Leads(s *apipb.PlacementStanding) []string {
	out := make([]string, 0, 2)
	if s != nil && s.Term != nil {
		out = append(out, fmt.Sprintf("cluster %s: this control plane gives orders, in term %d", s.GetCluster(), s.GetTerm()))
	} else {
		out = append(out, "this control plane gives no orders: "+cmp.Or(s.GetWhy(), "why is not known"))
	}
	if !s.GetReplicasKnown() {
		out = append(out, "which replicas there are is not known yet: the store was not read")
	}
	return out
}

// ReplicaCounts writes "3 ready, 1 lost", or none.
func ReplicaCounts(s *apipb.GetStatusResponse) string {
	var states []string
	for _, c := range s.GetReplicas() {
		states = append(states, fmt.Sprintf("%d %s", c.GetCount(), ReplicaState(c.GetState())))
	}
	return cmp.Or(strings.Join(states, ", "), "none")
}

// ModelCounts says how many models have what is wanted of them.
func ModelCounts(s *apipb.GetStatusResponse) string {
	whole := 0
	for _, m := range s.GetModels() {
		if m.GetReady() >= m.GetWanted() {
			whole++
		}
	}
	return fmt.Sprintf("%d of %d have all replicas that are wanted", whole, len(s.GetModels()))
}

// Troubles are what a person should look at, a sentence each, by what it is about.
type Troubles struct {
	Cards        []string // that may not be used
	Models       []string // that have not what is wanted of them
	Replicas     []string // that are not simply ready or on their way
	Strays       []string // shards that no replica knows
	Unasked      []string // models that nobody asks for
	SetAside     []string // models that are not in the catalog
	Certificates []string // and when each ends
}

// All returns them as one list.
func (t *Troubles) All() []string {
	return slices.Concat(t.Cards, t.Models, t.Replicas, t.Strays, t.Unasked, t.SetAside, t.Certificates)
}

// StatusTroubles are what of everything a person should look at.
func StatusTroubles(s *apipb.GetStatusResponse) *Troubles {
	t := &Troubles{}
	for _, k := range s.GetClasses() {
		for _, u := range k.GetUnusableWhy() {
			t.Cards = append(t.Cards, fmt.Sprintf("%s: %d unusable, %s (%s)", cmp.Or(k.GetClass(), "cards"), u.GetCount(), u.GetReason(), strings.Join(u.GetNodes(), ", ")))
		}
	}
	for _, m := range s.GetModels() {
		t.Models = append(t.Models, ModelTroubles(m, s.GetAt())...)
		if d := IdleTime(m.GetIdleSeconds()); d >= UnaskedFor {
			t.Unasked = append(t.Unasked, fmt.Sprintf("%s: nobody has asked for it for %s", m.GetName(), Lasting(d)))
		}
	}
	for _, r := range s.GetTroubled() {
		t.Replicas = append(t.Replicas, fmt.Sprintf("replica %s of %s is %s for %s%s", r.GetReplica(), r.GetModel(), ReplicaState(r.GetState()), Since(s.GetAt(), r.GetSince()),
			ReplicaTrouble(r.GetReason(), r.GetHeld(), r.GetLeaving())))
	}
	for _, st := range s.GetStrays() {
		t.Strays = append(t.Strays, StrayTrouble(st, s.GetAt()))
	}
	for _, m := range s.GetSetAside() {
		t.SetAside = append(t.SetAside, fmt.Sprintf("%s is set aside: %s", m.GetName(), OrText(m.GetWhy(), "why is not known")))
	}
	for _, c := range s.GetCertificates() {
		t.Certificates = append(t.Certificates, fmt.Sprintf("certificate %s (%s) %s", c.GetName(), c.GetUse(), Expiry(c.GetNotAfter(), s.GetAt())))
	}
	return t
}

// UnaskedFor is for how long nobody asks for a model until that is told.
const UnaskedFor = 15 * time.Minute

// StrayTrouble says of a shard that no row knows what becomes of it.
func StrayTrouble(st *apipb.StrayShard, at *timestamppb.Timestamp) string {
	shard := st.GetStatus()
	text := fmt.Sprintf("node %s has shard %d of %s, which no replica on record knows, for %s: it is %s, gets no requests, and ", st.GetNode(), shard.GetRank(),
		shard.GetReplica(), Since(at, st.GetSince()), cmp.Or(shard.GetState(), "in a state that is not known"))
	if st.GetHeld() != "" {
		return text + "ends when it has none left: " + st.GetHeld()
	}
	return text + "is being ended"
}

// Expiry says when a certificate ends, and in how long.
func Expiry(end, at *timestamppb.Timestamp) string {
	day := end.AsTime().UTC().Format(time.DateOnly)
	if left := end.AsTime().Sub(at.AsTime()); left > 0 {
		return fmt.Sprintf("expires in %s, on %s", Lasting(left), day)
	}
	return "has expired on " + day
}

// MemoryUsed is how much of the memory of a class of cards is used.
func MemoryUsed(k *apipb.CardClass) string {
	if k.MemoryBytes == nil || k.MemoryUsedBytes == nil || k.GetMemoryBytes() == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", int(100*float64(k.GetMemoryUsedBytes())/float64(k.GetMemoryBytes())))
}
