package gateway

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
)

func TestWhoIsAskedWhoItIs(t *testing.T) {
	tests := []struct {
		name string
		spec endpoint.Spec
		want bool
	}{
		{"an engine that answers any name", endpoint.Spec{URL: "http://e", Engine: engines.LlamaCPP}, true},
		{"one that is not known yet", endpoint.Spec{URL: "http://e", Engine: engines.Auto}, true},
		{"one that refuses other names", endpoint.Spec{URL: "http://e", Engine: engines.VLLM}, false},
		{"one with a key of its own", endpoint.Spec{URL: "http://e", Secret: "k"}, false},
		{"one behind TLS", endpoint.Spec{URL: "https://e"}, false},
		{"one that is not to be asked", endpoint.Spec{URL: "http://e", SkipIdentity: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := identify(tt.spec, slog.New(slog.DiscardHandler)) != nil; got != tt.want {
				t.Errorf("asked: %t; want %t", got, tt.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	const a, b, ab, lora = `{"data":[{"id":"a"}]}`, `{"data":[{"id":"b"}]}`, `{"data":[{"id":"a"},{"id":"b"}]}`, `{"data":[{"id":"x","aliases":["a","y"]}]}`
	type said struct {
		status int
		body   string
		ok     bool
	}
	tests := []struct {
		name  string
		wants []string
		says  []said
		log   string // part of the log; empty: nothing is logged
	}{
		{"the model that is meant", []string{"a"}, []said{{200, a, true}, {200, a, true}, {200, b, false}, {200, a, true}}, ""},
		{"one model more", []string{"a"}, []said{{200, a, true}, {200, ab, true}}, ""},
		{"one of two goes", []string{"a", "b"}, []said{{200, ab, true}, {200, a, false}}, ""},
		{"an alias", []string{"a"}, []said{{200, lora, true}, {200, b, false}}, ""},
		{"another name than configured", []string{"m"}, []said{{200, b, true}, {200, b, true}, {200, a, false}}, "give its own name as upstream"},
		{"nothing is listed", []string{"a"}, []said{{404, ``, true}, {200, `{}`, true}, {200, `[`, true}, {200, b, true}, {200, a, false}}, "does not say what it serves"},
		{"nothing is listed any more", []string{"a"}, []said{{200, a, true}, {404, ``, false}, {200, `{"data":[]}`, false}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			id := &identity{wants: tt.wants, log: slog.New(slog.NewTextHandler(&log, nil))}
			for i, s := range tt.says {
				if err := id.check(s.status, []byte(s.body)); (err == nil) != s.ok {
					t.Errorf("answer %d, %d %s: %v; want it accepted: %t", i, s.status, s.body, err, s.ok)
				}
			}
			if got := log.String(); tt.log == "" && got != "" || !strings.Contains(got, tt.log) || strings.Count(got, tt.log) > 1 && tt.log != "" && strings.Count(got, "does not say") > 1 {
				t.Errorf("logged %q; want %q, once", got, tt.log)
			}
		})
	}
}

// A list as long as is read takes no more than a moment.
func TestIdentityOfManyModels(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	list.WriteString(`{"data":[{"id":"m"}`)
	n := 1
	for ; list.Len() < 1<<20-20; n++ {
		fmt.Fprintf(&list, `,{"id":"%x"}`, n)
	}
	list.WriteString(`]}`)
	id := &identity{wants: []string{"other"}, log: slog.New(slog.DiscardHandler)}
	began := time.Now()
	for range 2 {
		if err := id.check(200, []byte(list.String())); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(id.held) != n {
		t.Errorf("held to %d models of %d", len(id.held), n)
	}
	if err := id.check(200, []byte(`{"data":[{"id":"m"}]}`)); err == nil || len(err.Error()) > 1000 {
		t.Errorf("another engine: error %.200v", err)
	}
}
