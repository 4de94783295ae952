package plugin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

func loopback(t *testing.T) engines.Adapter {
	t.Helper()
	remote, stop, err := plugin.Loopback(&adapter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return remote
}

// A caller cannot tell whether the adapter is near or far.
func TestAnswersAreTheSame(t *testing.T) {
	near, far := &adapter{}, loopback(t)
	ask := func(a engines.Adapter) []any {
		d, err1 := a.Describe(t.Context())
		s, err2 := a.Validate(t.Context(), shard("m").Profile)
		l, err3 := a.Launch(t.Context(), shard("m"))
		c, err4 := a.Checks(t.Context())
		_, err5 := a.Validate(t.Context(), engines.Profile{Engine: "ours", TensorParallel: -1})
		return []any{d, s, l, c, err1, err2, err3, err4, err5}
	}
	if diff := cmp.Diff(ask(near), ask(far), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-near +far):\n%s", diff)
	}
}

func TestErrorsKeepTheirClass(t *testing.T) {
	far := loopback(t)
	tests := []struct {
		model string
		class error // nil: none
		text  string
	}{
		{"refuse", engines.ErrProfile, "give it one"},
		{"away", engines.ErrUnavailable, "asking a server"},
		{"fail", nil, "no idea"},
		{"panic", nil, "panic in Launch: no such card"},
		{"leak", engines.ErrAnswer, "placeholder"},
		{"huge", nil, "larger than max"},
		{"latin1", nil, "invalid UTF-8"},
		{"caf\xe9", engines.ErrProfile, "UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.model, func(t *testing.T) {
			_, err := far.Launch(t.Context(), shard(tt.model))
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error %v, want one with %q", err, tt.text)
			}
			for _, class := range []error{engines.ErrProfile, engines.ErrUnavailable, engines.ErrAnswer} {
				if errors.Is(err, class) != (class == tt.class) {
					t.Errorf("%v is %v: %t", err, class, errors.Is(err, class))
				}
			}
		})
	}
	_, err := far.Launch(t.Context(), shard("refuse"))
	want := &engines.ProfileError{Engine: "ours", Faults: []engines.Fault{{Field: "cards", Problem: "there are none", Advice: "give it one"}, {Field: "model", Problem: "is odd"}}}
	got, _ := errors.AsType[*engines.ProfileError](err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if _, err := far.Validate(t.Context(), shard("shapeless").Profile); !errors.Is(err, engines.ErrAnswer) {
		t.Errorf("a shape without ranks: %v", err)
	}
}

func TestCallerGivesUp(t *testing.T) {
	far := loopback(t)
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, enough)
	defer cancel()
	if _, err := far.Launch(ctx, shard("slow")); !errors.Is(err, enough) || errors.Is(err, engines.ErrUnavailable) {
		t.Errorf("error %v, want the caller's cause", err)
	}
}
