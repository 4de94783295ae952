package placement

import "fmt"

// Kind is what keeps a replica off a node, in a word. The zero value is none.
type Kind uint8

// The kinds of reasons.
const (
	_ Kind = iota // unset
	// NotReady: the node is not heard.
	NotReady
	// NotConnected: no order can be given to it.
	NotConnected
	// NodeCordoned and NodeDraining: an operator wants it so.
	NodeCordoned
	NodeDraining
	// NotPinned: the wish names nodes, and not this one.
	NotPinned
	// LabelMissing: it lacks a label of the wish, or has another value of it.
	LabelMissing
	// EngineNotOffered: it cannot launch the engine.
	EngineNotOffered
	// EngineProblem: it could, but for a problem.
	EngineProblem
	// CPUFeatureMissing: its processor lacks an instruction set.
	CPUFeatureMissing
	// ApartViolated: a replica is there that this one may not share a node with.
	ApartViolated
	// NoFabric: it is in no fabric, and the replica needs several nodes.
	NoFabric
	// FabricContradicted: its ports contradict every fabric that it says it is in.
	FabricContradicted
	// NoPort: too few ports of its range are free.
	NoPort
	// HostMemoryShort: too little of its own memory is free.
	HostMemoryShort
	// CardsShort: too few cards of one class can be used.
	CardsShort
	// FabricShort: the node would do, but its fabric has too few like it.
	FabricShort

	kinds = int(FabricShort) + 1
)

// String returns the kind as one word with dashes, as it stands in metrics.
func (k Kind) String() string {
	names := [kinds]string{
		"unset", "not-ready", "not-connected", "cordoned", "draining", "not-pinned", "label-missing", "engine-not-offered", "engine-problem",
		"cpu-feature-missing", "apart", "no-fabric", "fabric-contradicted", "no-port", "host-memory-short", "cards-short", "fabric-short",
	}
	if int(k) < kinds {
		return names[k]
	}
	return names[0]
}

// Kinds returns all kinds, in their order.
func Kinds() []Kind {
	out := make([]Kind, 0, kinds-1)
	for k := Kind(1); int(k) < kinds; k++ {
		out = append(out, k)
	}
	return out
}

// Reason is one thing that keeps a replica off a node. String says it in a
// sentence.
type Reason struct {
	Kind Kind
	// Subject is what it is about: a label, an engine, a processor's feature, a
	// model, a fabric. Empty where the kind says it all.
	Subject string
	// Detail is what is so instead: the label's value, the operator's reason, the
	// engine's problem, the replica that is there, what the ports say, the class
	// of the fabric's cards.
	Detail string
	// Need and Have are numbers of ports, cards or nodes, or bytes, by the kind. A
	// Have that is not known is no reason.
	Need, Have uint64

	cards *cardsShort // of CardsShort
}

// String says what is so in a sentence that begins with a small letter.
func (r Reason) String() string {
	switch r.Kind {
	case NotReady:
		return "it is " + r.Detail
	case NotConnected:
		return "it is not connected, so that no order can be given to it"
	case NodeCordoned:
		return withDetail("an operator cordoned it", r.Detail)
	case NodeDraining:
		return withDetail("an operator drains it", r.Detail)
	case NotPinned:
		return "the model is to run on " + r.Detail
	case LabelMissing:
		if r.Detail != "" {
			return fmt.Sprintf("its label is not %s, but %q", r.Subject, r.Detail)
		}
		return "it has no label " + r.Subject
	case EngineNotOffered:
		return fmt.Sprintf("it cannot launch the engine %q", r.Subject)
	case EngineProblem:
		return fmt.Sprintf("its engine %s cannot be launched: %s", r.Subject, r.Detail)
	case CPUFeatureMissing:
		return "its processor lacks " + r.Subject
	case ApartViolated:
		return fmt.Sprintf("replica %s of model %s is there, which may share no node with this one", r.Detail, r.Subject)
	case NoFabric:
		return fmt.Sprintf("it is in no fabric, and %d ranks need one between their nodes", r.Need)
	case FabricContradicted:
		return withDetail("its ports contradict that it is in fabric "+r.Subject, r.Detail)
	case NoPort:
		return fmt.Sprintf("needs %s, %d free", count(r.Need, "port"), r.Have)
	case HostMemoryShort:
		return withDetail(fmt.Sprintf("needs %s of its memory, %s free", bytesText(r.Need), bytesText(r.Have)), r.Detail)
	case CardsShort:
		return r.cards.text(r.Need, r.Have)
	case FabricShort:
		such := ""
		if r.Detail != "" {
			such = " with " + r.Detail
		}
		return fmt.Sprintf("it would do, but fabric %s%s holds %d of %d ranks", r.Subject, such, r.Have, r.Need)
	}
	return Kind(0).String()
}

func withDetail(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}
