//go:build !unix

package agent

import (
	"fmt"
	"os"

	"github.com/llmgw/llmgw/engines/process"
)

func lockDir(string) (*os.File, error) {
	return nil, fmt.Errorf("agent: %w", process.ErrUnsupported)
}
