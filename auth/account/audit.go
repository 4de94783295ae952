package account

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// Info is what may be shown of an account, in audit rows and lists.
type Info struct {
	ID      string   `json:"id"`
	Address string   `json:"address"`
	State   string   `json:"state"`
	Admin   bool     `json:"admin,omitempty"`
	Models  []string `json:"models"` // null is every model
	Band    string   `json:"band,omitempty"`
	storage.Limits
	Budget     string    `json:"budget,omitempty"` // as auth.ParseBudget reads it
	Keys       int       `json:"keys"`             // that it may have
	CreatedAt  time.Time `json:"created_at"`
	ApprovedAt time.Time `json:"approved_at,omitzero"`
	Revision   int64     `json:"revision,omitempty"`
}

// info is all of an account but its password.
func info(a storage.Account) *Info {
	i := &Info{
		ID: a.ID, Address: a.Address, State: a.State.String(), Admin: a.Admin, Models: a.Allowance.Models, Band: a.Allowance.Band,
		Limits: a.Allowance.Limits, Keys: a.Allowance.Keys, CreatedAt: a.CreatedAt, ApprovedAt: a.ApprovedAt, Revision: a.Revision,
	}
	if b := a.Allowance.Budget; b != nil {
		i.Budget = auth.FormatBudget(*b)
	}
	return i
}

// audit makes the row of a change. Sides are nil where there is nothing.
func (s *Service) audit(action, target string, before, after any, by auth.By) (storage.Audit, error) {
	id, err := s.newID("audit_")
	if err != nil {
		return storage.Audit{}, err
	}
	row := storage.Audit{ID: id, At: s.now(), Actor: by.Actor, Action: action, Target: target, RequestID: by.RequestID}
	row.Tidy() // whoever calls may have it from outside
	for _, side := range []struct {
		of  any
		out *json.RawMessage
	}{{before, &row.Before}, {after, &row.After}} {
		if side.of == nil {
			continue
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // it would make six bytes of one
		if err := e.Encode(side.of); err != nil {
			return storage.Audit{}, fmt.Errorf("account: audit row: %w", err)
		}
		*side.out = bytes.TrimSpace(text.Bytes())
	}
	return row, nil
}

// maxUpdates is how often a change is tried where others change the account, too.
const maxUpdates = 4

// update changes the account with that address and returns it as it is then. change is
// called once for each try.
func (s *Service) update(ctx context.Context, address, action string, by auth.By, change func(*storage.Account) error) (storage.Account, error) {
	for try := 1; ; try++ {
		before, err := s.account(ctx, address)
		if err != nil {
			return storage.Account{}, err
		}
		after := before
		if err := change(&after); err != nil {
			return storage.Account{}, err
		}
		why, err := s.audit(action, before.ID, info(before), info(after), by)
		if err != nil {
			return storage.Account{}, err
		}
		err = again(ctx, func() error { return s.deps.Store.UpdateAccount(ctx, after, why) })
		if err == nil {
			after.Revision++
			return after, nil
		}
		if !errors.Is(err, storage.ErrConflict) || try == maxUpdates {
			return storage.Account{}, err
		}
	}
}

// account returns the account with an address as somebody typed it.
func (s *Service) account(ctx context.Context, address string) (storage.Account, error) {
	address, err := ParseAddress(address)
	if err != nil {
		return storage.Account{}, err
	}
	a, err := s.deps.Store.AccountByAddress(ctx, address)
	if err != nil {
		return storage.Account{}, fmt.Errorf("account %s: %w", address, err)
	}
	return a, nil
}
