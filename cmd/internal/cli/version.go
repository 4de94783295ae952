package cli

import (
	"encoding/json"
	"fmt"

	"github.com/llmgw/llmgw/cmd/internal/app"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Run prints the version.
func (c *versionCmd) Run(streams Streams) error {
	v := app.ReadVersion()
	if c.JSON {
		return json.NewEncoder(streams.Out).Encode(v)
	}
	_, err := fmt.Fprintln(streams.Out, v)
	return err
}
