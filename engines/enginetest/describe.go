package enginetest

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

const (
	contractValid = "what an adapter returns is valid by itself (Validate of the type)"
	contractSame  = "the same question has the same answer every time, and leaves what was asked as it was"

	contractSameAdvice = "iterate over maps in the order of their sorted keys, and read no clock, file or variable"
)

// optionKey is how keys of options are spelled in YAML.
var optionKey = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// describes: the description is whole, and the same each time.
func describes(s *subject) (fs findings) {
	fs.err(contractValid, "Describe", s.d.Validate())
	const documented = "what a profile may say is explained in one sentence"
	for _, m := range s.d.Modes {
		if m.Doc == "" {
			fs.add(documented, fmt.Sprintf("mode %q has no Doc", m.Name), "say what it does")
		}
	}
	for _, o := range s.d.Options {
		if o.Doc == "" {
			fs.add(documented, fmt.Sprintf("option %q has no Doc", o.Key), "say what it does and its default")
		}
		if !optionKey.MatchString(o.Key) {
			fs.add("keys of options are lower-case letters, digits and underscores", fmt.Sprintf("option %q", o.Key), "rename it")
		}
	}
	again, err := s.adapter.Describe(s.ctx)
	if err != nil || !reflect.DeepEqual(again, s.d) {
		fs.add(contractSame, fmt.Sprintf("Describe differs the second time, error %v", err), "describe the adapter by constants")
	}
	return fs
}

// checkCommands: the checks are whole, can be told apart, and pass flags that
// some versions lack under a version only.
func checkCommands(s *subject) (fs findings) {
	if len(s.checks) == 0 {
		fs.add("every executable that the adapter starts has a check", "there is none", "return the widest command that a profile can lead to")
	}
	var names []string
	for _, c := range s.checks {
		at := fmt.Sprintf("check %q", c.Name)
		fs.err(contractValid, at, c.Validate())
		if slices.Contains(names, c.Name) {
			fs.add("checks can be told apart", at+" is there twice", "give each a name of its own")
		}
		names = append(names, c.Name)
		flags := flagcheck.Flags(flagcheck.Rest(c))
		for flag, since := range c.Since {
			if !slices.Contains(flags, flag) {
				fs.add("Since speaks of flags that the check's command has", fmt.Sprintf("%s: %s is not in it", at, flag), "add the flag to Command.Args, or take it out of Since")
			}
			if engines.CompareVersions(since, "") == 0 {
				fs.add("Since names a version", fmt.Sprintf("%s: %s since %q", at, flag, since), "give the first version that has the flag, such as 0.12.0")
			}
		}
	}
	again, err := s.adapter.Checks(s.ctx)
	if err != nil || !reflect.DeepEqual(again, s.checks) {
		fs.add(contractSame, fmt.Sprintf("Checks differ the second time, error %v", err), "iterate over no map")
	}
	return fs
}

// helpTexts: the engine's own help, where the author has it, knows what the
// adapter would pass.
func helpTexts(s *subject) (fs findings) {
	seen := 0
	for i, c := range s.checks {
		folders := []string{s.path("help", c.Name)}
		if i == 0 {
			folders = append(folders, s.path("help"))
		}
		for _, folder := range folders {
			pages, err := readPages(folder)
			if err != nil {
				fs.add("help texts can be read", err.Error(), "mend the file")
			}
			for version, text := range pages {
				seen++
				r := flagcheck.Check(c, flagcheck.Parse(text), version)
				at := fmt.Sprintf("%s, check %s", filepath.Join(folder, version+".txt"), c.Name)
				for _, m := range r.Missing {
					fs.add("the engine's help knows every flag and variable of the widest command", at+": "+m.String(), "pass what that version knows, or name in Since the first version that has it")
				}
				if len(r.Warnings) > 0 && len(r.Missing) > 0 {
					fs.add("the engine's help is whole", at+": "+r.Warnings[0], "capture it again with a terminal that is wide enough, and check HelpLines")
				}
			}
		}
	}
	if seen == 0 {
		s.skip = "no help text in " + s.path("help") + ": capture one with the check's HelpArgs as VERSION.txt"
	}
	return fs
}
