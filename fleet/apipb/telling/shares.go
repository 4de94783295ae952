package telling

import "github.com/llmgw/llmgw/fleet/apipb"

// What Shares counts, in its order.
const (
	ShareTaken = iota
	ShareOccupied
	ShareUnusable
	ShareAway
	ShareFree

	shares
)

// Shares divides a bar of that width among the cards of a class by what they are. What
// there is of has at least one; the sum is width, as long as that is no less than the
// number of kinds.
func Shares(k *apipb.CardClass, width int) [shares]int {
	parts := [shares]uint32{k.GetTaken(), k.GetOccupied(), k.GetUnusable(), k.GetAway(), k.GetFree()}
	var lengths [shares]int
	left, largest := width, 0
	for i, n := range parts {
		if n > 0 {
			lengths[i] = max(1, int(uint64(n)*uint64(width)/uint64(max(k.GetTotal(), 1))))
		}
		left -= lengths[i]
		if lengths[i] > lengths[largest] {
			largest = i
		}
	}
	lengths[largest] = max(lengths[largest]+left, 0) // what rounding left or took
	return lengths
}
