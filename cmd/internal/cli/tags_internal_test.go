package cli

import (
	"maps"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Tags add up, whatever is in their values; two values of one are refused.
func TestTagFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want map[string]string
		err  string
	}{
		{"", nil, ""},
		{"--tag a=1", map[string]string{"a": "1"}, ""},
		{"--tag a=1 --tag=b=x=y;z,w --tag c=", map[string]string{"a": "1", "b": "x=y;z,w", "c": ""}, ""},
		{"--tag a=1 --tag b=2 --tag a=1", map[string]string{"a": "1", "b": "2"}, ""},
		{"--tag a=1 --tag b=2 --tag a=3", nil, `--tag: a is given as "1" and as "3"; a tag has one value`},
		{"--tag a", nil, `--tag: want NAME=VALUE, got "a"`},
		{"--tag", nil, "--tag: expected NAME=VALUE value"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var flags struct {
				Tag tagFlags `placeholder:"NAME=VALUE"`
			}
			p, err := kong.New(&flags)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Parse(strings.Fields(tt.args))
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
			case err != nil || !maps.Equal(flags.Tag, tt.want):
				t.Errorf("%v, %v; want %v", flags.Tag, err, tt.want)
			}
		})
	}
}
