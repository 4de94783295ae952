package placement

// Score says how good a place is: a number for each [Criterion], and less is
// better. The first criterion in which two places differ decides between them.
// Of a gang it is the sum over its nodes.
type Score [criteria]int32

// Criterion is a ground on which one place is taken before another. The order of
// the constants is that in which they count.
type Criterion uint8

const (
	// FabricUnconfirmed counts nodes of which nobody knows whether they are in
	// the gang's fabric: what is not known must not cost a start that takes tens
	// of minutes.
	FabricUnconfirmed Criterion = iota
	// SameModelInDomain counts replicas of the model in the failure domains, so
	// that one failure takes few of them.
	SameModelInDomain
	// WeightsMissing counts nodes that would have to fetch the weights. In a
	// gang, a shared filer on which one node of the fabric sees them serves all
	// of that fabric.
	WeightsMissing
	// WholeNodesBroken counts nodes that are wholly free and will not be any
	// more: gangs need them.
	WholeNodesBroken
	// CardsLeft counts cards that stay free on the nodes: the tightest fit
	// leaves the largest rooms elsewhere.
	CardsLeft
	// WholeNodesInFabric counts, for each node that is broken, the wholly free
	// nodes of its fabric: they are taken from where there are fewest, so that
	// the largest gang that fits stays the same.
	WholeNodesInFabric
	// CardDistance is how far the cards of each node are apart: over each pair 0
	// for NVLink and XGMI, 1 to 5 for PIX, PXB, PHB, NODE and SYS.
	CardDistance
	// WeightsUnseen counts nodes that were not themselves seen to have the
	// weights.
	WeightsUnseen

	criteria = int(WeightsUnseen) + 1
)

// String returns the criterion as a noun.
func (c Criterion) String() string {
	names := [criteria]string{
		"nodes not confirmed in the fabric",
		"replicas of the model in the failure domain",
		"nodes without the weights",
		"whole nodes broken",
		"cards left on the nodes",
		"whole nodes in the fabric",
		"distance between cards",
		"nodes not seen to have the weights",
	}
	if int(c) < criteria {
		return names[c]
	}
	return "unset"
}

// Criteria returns all criteria in the order in which they count.
func Criteria() []Criterion {
	out := make([]Criterion, criteria)
	for i := range out {
		out[i] = Criterion(i)
	}
	return out
}

// Compare returns a negative number if s is better than o, a positive one if it
// is worse, and 0 if no criterion tells them apart.
func (s *Score) Compare(o *Score) int {
	for i := range s {
		if s[i] != o[i] {
			return int(s[i] - o[i])
		}
	}
	return 0
}

// Differs returns the criterion that decides between two scores.
func (s *Score) Differs(o *Score) (Criterion, bool) {
	for i := range s {
		if s[i] != o[i] {
			return Criterion(i), true
		}
	}
	return 0, false
}

func (s *Score) add(o *Score) {
	for i := range s {
		s[i] += o[i]
	}
}

func (s *Score) subtract(o *Score) {
	for i := range s {
		s[i] -= o[i]
	}
}
