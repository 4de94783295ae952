package flagcheck_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

const help = `usage: engine serve [options]

options:
  --port-range A:B      Ports.
  --served-model-name N
                        Name (env: ENGINE_NAME).
  --dtype {a,b}         Kind.
  --kv-config JSON      Values.
  -tp N, --tensor-size N
                        Cards.
  --no-flash            Off.
`

func check(args ...string) engines.Check {
	return engines.Check{
		Name:     "serve",
		Command:  engines.Command{Executable: "engine", Args: append([]string{"serve", "model"}, args...)},
		HelpArgs: []string{"serve", "--help=all"},
	}
}

func missing(r flagcheck.Report) []string {
	var out []string
	for _, m := range r.Missing {
		out = append(out, m.Name)
	}
	return out
}

func TestCheckMissesWholeNamesOnly(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"known flags, however they are given", []string{"--dtype=a", "-tp", "2", "-tp=2", "--kv-config.kind", "x", "--kv-config", "{}"}, nil},
		{"a part of a longer name", []string{"--port", "1", "--port-range", "1:2"}, []string{"--port"}},
		{"a longer name than the known one", []string{"--dtypes", "a"}, []string{"--dtypes"}},
		{"a shortened name", []string{"--tensor", "2", "-t", "2"}, []string{"--tensor", "-t"}},
		{"one dash or two", []string{"--tp", "2", "-dtype", "a"}, []string{"--tp", "-dtype"}},
		{"underscores", []string{"--served_model_name", "n"}, []string{"--served_model_name"}},
		{"the form that is not there", []string{"--flash", "--no-flash"}, []string{"--flash"}},
		{"values that look like flags", []string{"--dtype", "-1", "-0.5", "-"}, nil},
		{"behind two dashes", []string{"--", "--nothing"}, nil},
		{"the same one twice", []string{"--nothing", "a", "--nothing=b"}, []string{"--nothing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := flagcheck.Check(check(tt.args...), flagcheck.Parse(help), "1.0")
			if got := missing(r); !slices.Equal(got, tt.want) || r.OK() != (len(tt.want) == 0) {
				t.Errorf("missing %q, OK %t; want %q", got, r.OK(), tt.want)
			}
		})
	}
}

func TestCheckAlikeWhereTheEngineSaysSo(t *testing.T) {
	vllm := help + "\nThese are equal:\n  --json-arg '{\"a\": 1}'\n  --json-arg.a 1\n"
	llama := "----- common params -----\n\n--ctx-size N    context\n"
	for text, flag := range map[string]string{vllm: "--served_model_name", llama: "--ctx_size"} {
		if !flagcheck.Parse(text).Has(flag) {
			t.Errorf("%s is not known", flag)
		}
		if flagcheck.Parse(text).Has(flag + "_") {
			t.Errorf("%s_ is known", flag)
		}
	}
}

func TestCheckSkipsWhatTheVersionLacks(t *testing.T) {
	c := check("--new", "1", "--newer", "2", "--dtype", "a", "--gone")
	c.Since = map[string]string{"--new": "1.2", "--newer": "1.10", "--dtype": "9.9"}
	tests := []struct {
		version          string
		skipped, missing []string
	}{
		{"1.1.9", []string{"--new since 1.2", "--newer since 1.10"}, []string{"--gone"}},
		{"1.9", []string{"--newer since 1.10"}, []string{"--new", "--gone"}},
		{"v1.10.1", nil, []string{"--new", "--newer", "--gone"}},
		{"", []string{"--new since 1.2", "--newer since 1.10"}, []string{"--gone"}},
	}
	for _, tt := range tests {
		r := flagcheck.Check(c, flagcheck.Parse(help), tt.version)
		var skipped []string
		for _, s := range r.Skipped {
			skipped = append(skipped, s.Name+" since "+s.Since)
		}
		if !slices.Equal(skipped, tt.skipped) || !slices.Equal(missing(r), tt.missing) || r.Known != 1 {
			t.Errorf("version %q: skipped %q, missing %q, known %d", tt.version, skipped, missing(r), r.Known)
		}
	}
}

func TestCheckVariables(t *testing.T) {
	c := check()
	c.Variables = []string{"ENGINE_NAME", "ENGINE_NAM", "ENGINE_NAME_X"}
	r := flagcheck.Check(c, flagcheck.Parse(help), "")
	want := []flagcheck.Missing{{Name: "ENGINE_NAM", Near: []string{"ENGINE_NAME"}}, {Name: "ENGINE_NAME_X", Near: []string{"ENGINE_NAME"}}}
	if diff := cmp.Diff(want, r.Missing); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestCheckNamesWhatMayBeMeant(t *testing.T) {
	for flag, want := range map[string]string{
		"--served-model-nam":     "--served-model-nam (did you mean --served-model-name?)",
		"--tensor-parallel-size": "--tensor-parallel-size (did you mean --tensor-size?)",
		"--dtpye":                "--dtpye (did you mean --dtype?)",
		"--serve_model_name":     "--serve_model_name (did you mean --served-model-name?)",
		"--quantization":         "--quantization",
	} {
		r := flagcheck.Check(check(flag), flagcheck.Parse(help), "")
		if len(r.Missing) != 1 || !strings.HasPrefix(r.Missing[0].String(), want) || want == flag && r.Missing[0].String() != flag {
			t.Errorf("%v; want %s", r.Missing, want)
		}
	}
}

// A flag that the text calls removed is not there; one that it calls deprecated
// is, and worth a word.
func TestCheckReadsWhatIsSaidOfAFlagsEnd(t *testing.T) {
	h := flagcheck.Parse(`--draft, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                             --spec-ngram-mod-n-max
                             (env: LLAMA_ARG_DRAFT_MAX)
--mlock                      DEPRECATED in favor of load-mode: force
                             (env: LLAMA_ARG_MLOCK)
--dtype N                    'half' is deprecated
`)
	r := flagcheck.Check(engines.Check{Command: engines.Command{Args: []string{"--draft-max", "1", "--mlock", "--dtype", "a"}}}, h, "")
	if len(r.Missing) != 1 || r.Missing[0].String() != "--draft-max: the argument has been removed. use --spec-draft-n-max or --spec-ngram-mod-n-max" {
		t.Errorf("missing %q", r.Missing)
	}
	if want := []string{"--mlock is going away: DEPRECATED in favor of load-mode: force"}; !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %q; want %q", r.Warnings, want)
	}
}

// Of "python -m engine", -m is none of the engine's flags.
func TestRest(t *testing.T) {
	tests := []struct{ command, help, want string }{
		{"-m engine --port 1", "-m engine --help", "--port 1"},
		{"serve model --port 1", "serve --help=all", "model --port 1"},
		{"--port 1", "-h", "--port 1"},
		{"serve", "serve play --help", ""},
		{"serve", "serve", ""},
		{"", "--help", ""},
	}
	for _, tt := range tests {
		c := engines.Check{Command: engines.Command{Args: strings.Fields(tt.command)}, HelpArgs: strings.Fields(tt.help)}
		if got := strings.Join(flagcheck.Rest(c), " "); got != tt.want {
			t.Errorf("%q with the help at %q: %q; want %q", tt.command, tt.help, got, tt.want)
		}
	}
}

func TestVersion(t *testing.T) {
	tests := []struct{ output, want string }{
		{"0.12.0\n", "0.12.0"},
		{"INFO 11-30 07:43:10 [__init__.py:216] Automatically detected platform cpu.\nWARNING: numpy version 2.1 is old\n0.33.0rc1+cpu\n", "0.33.0rc1+cpu"},
		{"version: 10587 (3f545bee)\nbuilt with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu\n", "10587"},
		{"version: b10587 (3f545bee)\n", "b10587"},
		{"text-generation-launcher 3.3.7\n", "3.3.7"},
		{"ollama version is 0.33.0\n", "0.33.0"},
		{"Warning: could not connect to a running Ollama instance\nWarning: client version is 0.5.7\n", "0.5.7"},
		{"sglang version: v0.5.15\n", "v0.5.15"},
		{"\x1b[1mengine, version 1.2.3.\x1b[0m\n", "1.2.3"},
		{"ray, version 2.50.1\r\n", "2.50.1"},
		{"no such thing\n", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := flagcheck.Version(tt.output, "other 9.9\n"); got != tt.want && (tt.want != "" || got != "9.9") {
			t.Errorf("%q: %q; want %q", tt.output, got, tt.want)
		}
	}
	if got := flagcheck.Version("", "engine 1.2\n"); got != "1.2" {
		t.Errorf("on the other stream: %q", got)
	}
}

// Whatever the flags of an engine are, in each style all of them are found, and
// none that differs by a letter at its end.
func TestEveryDeclaredFlagIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}`), 1, 12, rapid.ID[string]).Draw(t, "names")
		style := rapid.SampledFrom([]string{"  --%s %s\n                        text --no-flag\n", "      --%s <%s>\n          text\n\n", "--%s %s                    text\n", "│ --%s     %s    text │\n"}).Draw(t, "style")
		var text strings.Builder
		text.WriteString("Options:\n")
		for _, n := range names {
			text.WriteString(strings.NewReplacer("--%s", "--"+n, "%s", "VALUE").Replace(style))
		}
		h := flagcheck.Parse(text.String())
		for _, n := range names {
			if !h.Has("--" + n) {
				t.Fatalf("--%s is not found in\n%s", n, text.String())
			}
			if longer := n + "x"; h.Has("--"+longer) && !slices.Contains(names, longer) {
				t.Fatalf("--%s is found in\n%s", longer, text.String())
			}
		}
		if len(h.Flags()) != len(names) {
			t.Fatalf("%q in\n%s", h.Flags(), text.String())
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{help, "", "usage: x [-h", "│ --a…", "--[no-]x[=<y", "  -a, \n-b,", "Options:\n\n", "\x1b[1m-x\x1b[0m", "--a [b|c  | d] e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h := flagcheck.Parse(text)
		for _, flag := range h.Flags() {
			if !h.Has(flag) || !strings.HasPrefix(flag, "-") || strings.ContainsAny(flag, " \t\n=,/|[]<>{}()") {
				t.Errorf("%q is no flag", flag)
			}
		}
		if h.Lines > strings.Count(text, "\n")+1 {
			t.Errorf("%d lines", h.Lines)
		}
		r := flagcheck.Check(engines.Check{Command: engines.Command{Args: h.Flags()}}, h, "")
		if !r.OK() {
			t.Errorf("its own flags are missing: %v", r.Missing)
		}
		flagcheck.Version(text)
	})
}
