package peer

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		err  error
		want int
		says string
	}{
		{"done", nil, nil, 0, ""},
		{"failed", nil, errors.New("off"), 1, "off\n"},
		{"help", nil, flag.ErrHelp, 0, ""},
		{"no such role", []string{rolePrefix + "x"}, nil, 1, "no role \"x\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said strings.Builder
			code := exitCode(tt.args, func(context.Context, []string) error { return tt.err }, &said)
			if code != tt.want || said.String() != tt.says {
				t.Errorf("exit code %d, said %q; want %d, %q", code, &said, tt.want, tt.says)
			}
		})
	}
}
