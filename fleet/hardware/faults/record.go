package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrRecord is wrapped by the error for a record that cannot be read.
var ErrRecord = errors.New("faults: the record cannot be read")

const recordVersion = 1

// bookRecord is what is kept of a Book. That a card reads clean is not: who
// was away has not seen it.
type bookRecord struct {
	Version int `json:"version"`
	// BootID is of the machine's start in which Kernel counts.
	BootID string       `json:"boot_id"`
	Kernel uint64       `json:"kernel_seq,omitempty"`
	Cards  []cardRecord `json:"cards,omitempty"`
}

type cardRecord struct {
	Key      string      `json:"key"`
	UUID     string      `json:"uuid,omitempty"`
	Driver   string      `json:"driver,omitempty"`
	Faults   []fault     `json:"faults,omitempty"`
	Returns  []time.Time `json:"returns,omitempty"`
	Forgiven uint64      `json:"forgiven,omitempty"`
}

// Marshal returns what has to be kept for [Book.Load], as JSON. bootID names
// the machine's present start.
func (b *Book) Marshal(bootID string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := bookRecord{Version: recordVersion, BootID: bootID, Kernel: b.seq}
	for _, key := range slices.Sorted(maps.Keys(b.cards)) {
		c := b.cards[key]
		r.Cards = append(r.Cards, cardRecord{
			Key: key, UUID: c.uuid, Driver: c.driver, Faults: c.faults, Returns: c.returns, Forgiven: c.forgiven,
		})
	}
	return json.Marshal(r)
}

// Load replaces what the book knows by what [Book.Marshal] returned. With
// another bootID the machine was restarted since, which is a repair; when
// either is not known that cannot be told, and is not assumed. An error wraps
// [ErrRecord], and then the book is as it was.
func (b *Book) Load(data []byte, bootID string) error {
	var r bookRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%w: %w; remove it and the faults that are still read come back by themselves", ErrRecord, err)
	}
	if r.Version != recordVersion {
		return fmt.Errorf("%w: version %d, and this program knows %d", ErrRecord, r.Version, recordVersion)
	}
	cards := make(map[string]*card, len(r.Cards))
	for _, c := range r.Cards {
		if c.Key == "" || len(cards) >= maxCards {
			return fmt.Errorf("%w: a card without a key, or more than %d of them", ErrRecord, maxCards)
		}
		cards[c.Key] = &card{uuid: c.UUID, driver: c.Driver, faults: c.Faults, returns: c.Returns, forgiven: c.Forgiven}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cards, b.seq = cards, r.Kernel
	b.revision++
	for _, c := range b.cards {
		b.dropIgnored(c)
	}
	if r.BootID != "" && bootID != "" && r.BootID != bootID {
		b.seq = 0
		for _, c := range b.cards {
			c.forgiven = 0
			b.repaired(c, "the machine was restarted")
		}
	}
	return nil
}
