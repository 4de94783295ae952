package api

import "net/http"

// The bounds of NewSmallHandler. What NewHandler has takes seconds to exceed under
// the race detector.
const (
	SmallBodyBytes    = 48 << 10
	SmallMessageBytes = 64 << 10
)

// NewSmallHandler is NewHandler with smaller bounds.
func NewSmallHandler(deps Deps) http.Handler {
	return newHandler(deps, SmallBodyBytes, SmallMessageBytes)
}
