package rows_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

func FuzzParseCursor(f *testing.F) {
	f.Add(rows.Cursor(rows.Usages, time.Unix(1_700_000_000, 5000), "request"))
	f.Add("")
	f.Add("AQEAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		at, texts, err := rows.ParseCursor(rows.Usages, text, 1)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if back := rows.Cursor(rows.Usages, at, texts...); back != text {
			// Only varints have two forms.
			if at2, texts2, err := rows.ParseCursor(rows.Usages, back, 1); err != nil || !at2.Equal(at) || !slices.Equal(texts, texts2) {
				t.Fatalf("%q is %v %q, that is %q", text, at, texts, back)
			}
		}
	})
}

func TestCursorOfAnotherList(t *testing.T) {
	c := rows.Cursor(rows.Keys, time.Unix(1, 0), "k")
	for _, list := range []rows.List{rows.Usages, rows.Sums, rows.AuditAt} {
		if _, _, err := rows.ParseCursor(list, c, 1); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("list %d took a cursor of keys: %v", list, err)
		}
	}
	if _, _, err := rows.ParseCursor(rows.Keys, c, 2); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("one text as two: %v", err)
	}
}

// A kept time is at or after t just if it is at or after Ceil(t).
func TestCeil(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(0, rapid.Int64Range(0, 1<<62).Draw(t, "t"))
		kept := rows.Time(time.Unix(0, at.UnixNano()+rapid.Int64Range(-3000, 3000).Draw(t, "d")))
		if kept.Before(at) != kept.Before(rows.Ceil(at)) {
			t.Fatalf("%v before %v, Ceil %v", kept, at, rows.Ceil(at))
		}
	})
	if !rows.Time(time.Time{}).IsZero() || !rows.Ceil(time.Time{}).IsZero() {
		t.Error("the zero time changed")
	}
}
