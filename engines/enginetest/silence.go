package enginetest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// heard: what a profile asks for shows in its launch, or is refused: an adapter
// that has nothing for a field says so, and the model does not run otherwise
// than it was meant to.
func heard(s *subject) (fs findings) {
	newest := circumstancesOf(s.d)[1]
	base := profileFile{Profile: engines.Profile{Engine: s.d.Engine, Model: "/models/suite", ServedNames: []string{"suite"}}, Shard: newest}
	if _, err := s.adapter.Validate(s.ctx, base.Profile); err != nil {
		base.Profile = s.profiles[0].Profile
	}
	plain := s.said(s.adapter, base)
	var silent []string
	for _, c := range changes(s.d) {
		if strings.HasPrefix(c.name, "mode ") || strings.HasPrefix(c.name, "task ") || strings.Contains(c.name, "=") || c.name == "two names" {
			continue // may ask for what is done anyway, follow from the model, or be all the same to the engine
		}
		f := base
		f.Profile = cloneProfile(base.Profile)
		c.apply(&f.Profile)
		if reflect.DeepEqual(f.Profile, base.Profile) {
			continue
		}
		if s.said(s.adapter, f) == plain {
			silent = append(silent, c.name)
		}
	}
	if len(silent) > 0 {
		fs.add("what a profile asks for shows in its launch, or is refused", fmt.Sprintf("the launch is the same with and without each of %q", silent), "pass it on, or add a fault that says what to do in its place")
	}
	return fs
}
