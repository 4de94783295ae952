package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a file may hold is bounded, so that it cannot fill the memory; the last
// that fits is taken.
func TestBounds(t *testing.T) {
	const rows = 3
	row := `{"timestamp": 1, "input_length": 600, "output_length": 2, "hash_ids": [3, 4]}` + "\n"
	file := strings.Repeat(row, rows)
	enough := bounds{requests: rows, blocks: 2 * rows, bytes: int64(len(file))}
	for _, tt := range []struct {
		name   string
		change func(*bounds)
		want   string // "" for none
	}{
		{"as much as fits", func(*bounds) {}, ""},
		{"requests", func(b *bounds) { b.requests-- }, "a:3: more than 2 requests; want a part of the file"},
		{"blocks", func(b *bounds) { b.blocks-- }, "a:3: hash_ids: more than 5 ids up to here; want a part of the file"},
		{"bytes", func(b *bounds) { b.bytes-- }, "a:3: more than 512 MiB up to here, unpacked; want a part of the file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			most := enough
			tt.change(&most)
			trace, err := read(strings.NewReader(file), "a", "", most)
			if tt.want == "" {
				if err != nil || len(trace.Requests) != rows {
					t.Errorf("%v, %v", trace, err)
				}
				return
			}
			if e, ok := errors.AsType[*RowError](err); !ok || e.Line != rows || err.Error() != tt.want || trace != nil {
				t.Errorf("%v, %v; want %s", trace, err, tt.want)
			}
		})
	}
}

// A long trace is put together of several slabs, in order.
func TestLongTrace(t *testing.T) {
	const rows = 40_000
	var file strings.Builder
	file.WriteString("Timestamp,Request tokens,Response tokens\n")
	for i := range rows {
		fmt.Fprintf(&file, "%d,%d,1\n", i, i+1)
	}
	trace, err := Read(strings.NewReader(file.String()), "a", "")
	if err != nil || len(trace.Requests) != rows {
		t.Fatal(err)
	}
	for i := range trace.Requests {
		r := &trace.Requests[i]
		if r.Seq != uint64(i) || r.PromptTokens != i+1 || r.Line != i+2 || r.At != time.Duration(i)*time.Second {
			t.Fatalf("request %d is %+v", i, r)
		}
	}
}

// Gzip that unpacks to blank lines without end is left at the bound of bytes.
func TestBoundOfUnpackedBytes(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := fmt.Fprint(w, "TIMESTAMP,ContextTokens,GeneratedTokens\n", strings.Repeat("\n", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := read(&packed, "a", "", bounds{requests: 1, blocks: 1, bytes: 1000})
	if err == nil || !strings.Contains(err.Error(), "unpacked; want a part of the file") {
		t.Error(err)
	}
}

// Numbers of requests need not ascend, only differ.
func TestSeqsInAnyOrder(t *testing.T) {
	trace := &Trace{Requests: []Request{
		{PromptTokens: 1, OutputTokens: 1, Seq: 9}, {PromptTokens: 1, OutputTokens: 1, Seq: 2}, {PromptTokens: 1, OutputTokens: 1, Seq: 5},
	}}
	if err := trace.Validate(); err != nil {
		t.Error(err)
	}
	trace.Requests[2].Seq = 9
	if err := trace.Validate(); err == nil || !strings.Contains(err.Error(), "request 2: seq 9 stands twice") {
		t.Error(err)
	}
}

// A trace is not repeated beyond its bound of blocks.
func TestRepeatIsBounded(t *testing.T) {
	trace := &Trace{BlockTokens: 1, Requests: []Request{{PromptTokens: 1 << 20, OutputTokens: 1, Blocks: make([]uint64, 1<<20)}}}
	if _, err := trace.Repeat(33); err == nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1048576 blocks 33 times; want at most 33554432 in all") {
		t.Error(err)
	}
	if err := trace.Validate(); err != nil {
		t.Error(err)
	}
}
