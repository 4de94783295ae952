package cli

import (
	"io"

	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// printable passes text on without what a terminal would obey: see
// [telling.Printable]. It is for text that comes out of a file somebody else wrote.
type printable struct{ w io.Writer }

// Write writes all of b, which ends between two characters.
func (p printable) Write(b []byte) (int, error) {
	if _, err := p.w.Write(telling.Printable(make([]byte, 0, len(b)), b)); err != nil {
		return 0, err
	}
	return len(b), nil
}
