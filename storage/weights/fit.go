package weights

import (
	"fmt"

	"github.com/llmgw/llmgw/engines"
)

// TooSmallError says that a model cannot run on a card, however free.
type TooSmallError struct {
	Engine engines.Name
	// NeedBytes is what must fit, RoomBytes the part of the card that is there for
	// it, CardBytes the card.
	NeedBytes, RoomBytes, CardBytes uint64
}

// Error says what was needed, and what to change.
func (e *TooSmallError) Error() string {
	return fmt.Sprintf("weights: %s needs %s of a card, and has %s of one of %s; spread the model over more cards, shorten the context, or choose a larger card",
		e.Engine, size(e.NeedBytes), size(e.RoomBytes), size(e.CardBytes))
}

// Check reports, as a [*TooSmallError], that the model does not fit the card that
// the estimate is for. Nil where that is not known.
func (m Memory) Check() error {
	card, ok := m.CardBytes.Get()
	if !ok || m.Cards == 0 {
		return nil
	}
	room, need := card, m.NeedBytes
	if ratio, shares := m.ShareRatio.Get(); shares {
		room = uint64(float64(card) * ratio)
	}
	if m.ShareAside {
		need = sum(m.Weights, m.KV)
	}
	if n, known := need.Get(); known && n > room {
		return &TooSmallError{Engine: m.Engine, NeedBytes: n, RoomBytes: room, CardBytes: card}
	}
	return nil
}
