// Package transfer reads what a store's Export wrote, without a store.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmgw/llmgw/storage/internal/dump"
)

// Verify reads a text to its end and returns nil if it is whole: what Export
// wrote, unchanged, each record such as can be kept. So a bad one is found before
// a store is made for it. What is cut off, was changed or is something else is
// [storage.ErrInvalid], and what a newer program wrote [storage.ErrSchema].
// Whether records contradict each other, Import finds out.
func Verify(ctx context.Context, r io.Reader) error {
	d, err := dump.NewReader(r)
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	for {
		rec, err := d.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = rec.Valid()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("transfer: %w", err)
		}
	}
}
