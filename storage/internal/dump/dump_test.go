package dump_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/dump"
)

// FuzzReader: whatever is read, it ends with io.EOF only if it is whole, and
// else with an error that says whose fault it is.
func FuzzReader(f *testing.F) {
	whole, err := os.ReadFile("../../sqlite/testdata/schema-1.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"format":"llmgw-store","version":1,"schema":1}` + "\n" + `{"end":true,"lines":0,"sha256":"x"}`))
	f.Add([]byte(`{"format":"llmgw-store","version":1}` + "\n" + `{"key":null}` + "\n"))
	f.Add([]byte(`{"format":"llmgw-store","version":5}` + "\n" +
		`{"account":{"id":"a","address":"a@b","password":"$","state":"approved","allowance":{"models":["x"],"limits":{},"budget":{"nanos":1,"period":"day"},"keys":1},"created_at":1,"revision":1}}` + "\n" +
		`{"link":{"id":"l","hash":"00","kind":"key","spec":{"owner":"x"},"created_at":1,"expires_at":2,"used_at":1,"key":"k"}}` + "\n"))
	f.Add([]byte(`{"format":"llmgw-store","version":6}` + "\n" +
		`{"provider":{"id":"p","name":"n","base_url":"http://a","kind":"cloud","credential":"AQ==","credential_key":"k","models":[{"name":"m","context_tokens":1,"first_seen":"2026-03-02T00:00:00Z"}],"created_at":1,"changed_at":1,"revision":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := dump.NewReader(bytes.NewReader(text))
		for n := 0; err == nil; n++ {
			var r dump.Record
			if r, err = d.Next(); err == nil {
				check(t, r)
			}
			if n > len(text) {
				t.Fatal("more records than bytes")
			}
		}
		if errors.Is(err, io.EOF) {
			if _, again := d.Next(); !errors.Is(again, io.EOF) {
				t.Fatalf("after the end: %v", again)
			}
		} else if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrSchema) {
			t.Fatal(err)
		}
	})
}

// check wants a record to become one that a store keeps, or ErrInvalid.
func check(t *testing.T, r dump.Record) {
	t.Helper()
	err := r.Valid()
	if err != nil && !errors.Is(err, storage.ErrInvalid) {
		t.Fatal(err)
	}
}
