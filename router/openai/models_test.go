package openai_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/openai"
)

func TestModelList(t *testing.T) {
	tests := []struct {
		name   string
		models []openai.Model
		want   string
	}{
		{"empty", nil, `{"object":"list","data":[]}`},
		{"two", []openai.Model{{ID: "org/a", Created: time.Unix(1700000000, 5), OwnedBy: "me"}, {ID: "b"}},
			`{"object":"list","data":[{"id":"org/a","object":"model","created":1700000000,"owned_by":"me"},{"id":"b","object":"model","created":0,"owned_by":"llmgw"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, string(openai.ModelList(tt.models))); diff != "" {
				t.Error(diff)
			}
		})
	}
	want := `{"id":"b","object":"model","created":0,"owned_by":"llmgw"}`
	if got := string((openai.Model{ID: "b"}).JSON()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
