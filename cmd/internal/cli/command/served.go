package command

import (
	"encoding/json"
	"io"
)

// Served is the one line that --json prints when a command is ready, for
// programs that started it.
type Served struct {
	// BaseURL is the root of the client listener: the API is below it at /v1.
	BaseURL string `json:"base_url"`
	// AdminURL is the root of the admin listener.
	AdminURL string   `json:"admin_url,omitempty"`
	Models   []string `json:"models"`
	// APIKey is a key that was made for it; empty where nobody is asked for one.
	APIKey string `json:"api_key,omitempty"`
}

// WriteJSON prints it.
func (s Served) WriteJSON(w io.Writer) {
	// Fails only if nobody reads, and then there is nobody to tell.
	_ = json.NewEncoder(w).Encode(s)
}
