package workload_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

const traces = "../../../examples/traces/"

const (
	mooncakeFile = traces + "mooncake_conversation.jsonl.gz"
	azureFile    = traces + "azure2023_conv.csv.gz"
	aibrixFile   = traces + "aibrix_prefix_share_p1024_s128_rps5.jsonl.gz"
)

func open(tb testing.TB, path string) *workload.Trace {
	tb.Helper()
	t, err := workload.Open(path, "")
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// TestRecordedTraces compares with sums that a program of another language
// took of the files.
func TestRecordedTraces(t *testing.T) {
	for _, tt := range []struct {
		path   string
		format workload.Format
		blocks int
		want   workload.Stats
	}{
		{mooncakeFile, workload.Mooncake, 512, workload.Stats{
			Requests: 6000, Duration: 1872 * time.Second,
			Prompt: workload.Summary{Total: 76643649, Mean: 76643649. / 6000, Min: 891, P50: 7593, P90: 28547, P99: 91305, Max: 123192},
			Output: workload.Summary{Total: 2081764, Mean: 2081764. / 6000, Min: 1, P50: 356, P90: 609, P99: 1137, Max: 2000},
			Blocks: 152537, SeenBlocks: 52821, SeenTokens: 27034743,
		}},
		{azureFile, workload.Azure, 0, workload.Stats{
			Requests: 10000, Duration: 29*time.Minute + 47*time.Second + 309283*time.Microsecond,
			Prompt: workload.Summary{Total: 12424297, Mean: 1242.4297, Min: 2, P50: 1033, P90: 4076, P99: 4123, Max: 14050},
			Output: workload.Summary{Total: 2184052, Mean: 218.4052, Min: 7, P50: 136, P90: 427, P99: 611, Max: 1000},
		}},
		{aibrixFile, workload.AIBrix, 0, workload.Stats{
			Requests: 192, Duration: 37983 * time.Millisecond,
			Prompt:     workload.Summary{Total: 221376, Mean: 1153, Min: 1153, P50: 1153, P90: 1153, P99: 1153, Max: 1153},
			Output:     workload.Summary{Total: 1536, Mean: 8, Min: 8, P50: 8, P90: 8, P99: 8, Max: 8},
			SeenTokens: 191954, Texts: 192,
		}},
	} {
		t.Run(string(tt.format), func(t *testing.T) {
			trace := open(t, tt.path)
			if err := trace.Validate(); err != nil {
				t.Fatal(err)
			}
			if trace.Format != tt.format || trace.BlockTokens != tt.blocks || trace.Name != filepath.Base(tt.path) {
				t.Errorf("%s: %s, blocks of %d", trace.Name, trace.Format, trace.BlockTokens)
			}
			if diff := cmp.Diff(tt.want, trace.Stats()); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
			again, err := workload.Open(tt.path, tt.format)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(trace, again) { // go-cmp takes seconds under -race
				t.Error("another trace when the format is given")
			}
		})
	}
}

func TestRecordedRows(t *testing.T) {
	moon, azure, aibrix := open(t, mooncakeFile), open(t, azureFile), open(t, aibrixFile)
	if diff := cmp.Diff(workload.Request{
		At: 1872 * time.Second, PromptTokens: 1126, OutputTokens: 188, Blocks: []uint64{0, 99714, 99715}, Seq: 5999, Line: 6000,
	}, moon.Requests[5999]); diff != "" {
		t.Errorf("mooncake (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(workload.Request{
		At: 4314579 * time.Microsecond, PromptTokens: 396, OutputTokens: 109, Seq: 1, Line: 3,
	}, azure.Requests[1]); diff != "" {
		t.Errorf("azure (-want +got):\n%s", diff)
	}
	bytes := 0
	for _, r := range aibrix.Requests {
		bytes += len(r.Text)
	}
	if bytes != 1084003 {
		t.Errorf("aibrix: %d bytes of text", bytes)
	}
	if r := aibrix.Requests[1]; r.At != 251*time.Millisecond || r.Line != 2 || !strings.HasPrefix(r.Text, "0reate a marketing copy") {
		t.Errorf("aibrix: %+v", r)
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		format     workload.Format
		want       []workload.Request
	}{
		{"burstgpt", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
			"5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087.0,230,1317,Conversation log\n", workload.BurstGPT, []workload.Request{
			{PromptTokens: 472, OutputTokens: 18, Line: 2},
			{At: 40500 * time.Millisecond, PromptTokens: 1087, OutputTokens: 230, Seq: 1, Line: 3},
		}},
		{"burstgpt with sessions", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
			`0,s1,2.5,"Chat, GPT",472,18,490,Conversation log`, workload.BurstGPT, []workload.Request{
			{PromptTokens: 472, OutputTokens: 18, Session: "s1", Line: 2},
		}},
		{
			"qwen", `{"chat_id":7,"parent_chat_id":-1,"timestamp":61.25,"input_length":33,"output_length":9,"type":"text","turn":1,"hash_ids":[1,2,3]}` + "\n" +
				`{"chat_id":8,"parent_chat_id":7,"timestamp":62,"input_length":33,"output_length":9,"turn":2,"hash_ids":[1,2]}` + "\n" +
				`{"chat_id":9,"parent_chat_id":8,"timestamp":62,"input_length":1,"output_length":9,"turn":3,"hash_ids":[]}` + "\n" +
				`{"chat_id":10,"parent_chat_id":4,"timestamp":62,"input_length":1,"output_length":9,"turn":3,"hash_ids":[5]}`,
			workload.Qwen,
			[]workload.Request{
				{PromptTokens: 33, OutputTokens: 9, Blocks: []uint64{1, 2, 3}, Session: "7", Line: 1},
				{At: 750 * time.Millisecond, PromptTokens: 33, OutputTokens: 9, Blocks: []uint64{1, 2}, Session: "7", Seq: 1, Line: 2},
				{At: 750 * time.Millisecond, PromptTokens: 1, OutputTokens: 9, Blocks: []uint64{}, Session: "7", Seq: 2, Line: 3},
				{At: 750 * time.Millisecond, PromptTokens: 1, OutputTokens: 9, Blocks: []uint64{5}, Session: "4", Seq: 3, Line: 4},
			},
		},
		{
			"azure 2024, any order of columns, marks and blanks",
			"\xef\xbb\xbfGeneratedTokens, contexttokens ,TIMESTAMP,x\r\n\r\n1,2,2024-05-10 00:00:00.25+00:00,\r\n \n3,4,2024-05-10 00:00:01+00:00,y",
			workload.Azure,
			[]workload.Request{
				{PromptTokens: 2, OutputTokens: 1, Line: 3},
				{At: 750 * time.Millisecond, PromptTokens: 4, OutputTokens: 3, Seq: 1, Line: 5},
			},
		},
		{
			"aibrix with several requests a row",
			`{"timestamp":0.5,"requests":[{"Prompt Length":1,"Output Length":2,"prompt":"é"},{"Prompt Length":3,"Output Length":4,"prompt":"b"}]}`,
			workload.AIBrix,
			[]workload.Request{
				{PromptTokens: 1, OutputTokens: 2, Text: "é", Line: 1},
				{PromptTokens: 3, OutputTokens: 4, Text: "b", Seq: 1, Line: 1},
			},
		},
		{
			"mooncake, from any time on", `{"timestamp":1700000000000,"input_length":512,"output_length":1,"hash_ids":[18446744073709551615]}` + "\n" +
				`{"timestamp":1700000000002,"input_length":513,"output_length":1,"hash_ids":[ 0 , 1 ],"more":{}}`, workload.Mooncake,
			[]workload.Request{
				{PromptTokens: 512, OutputTokens: 1, Blocks: []uint64{1<<64 - 1}, Line: 1},
				{At: 2 * time.Millisecond, PromptTokens: 513, OutputTokens: 1, Blocks: []uint64{0, 1}, Seq: 1, Line: 2},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, packed := range []bool{false, true} {
				text := []byte(tt.text)
				if packed {
					text = pack(text)
				}
				trace, err := workload.Read(iotest.OneByteReader(bytes.NewReader(text)), "some name", "")
				if err != nil {
					t.Fatal(err)
				}
				if trace.Format != tt.format || trace.Name != "some name" {
					t.Errorf("%q: %s", trace.Name, trace.Format)
				}
				if diff := cmp.Diff(tt.want, trace.Requests); diff != "" {
					t.Errorf("packed %v (-want +got):\n%s", packed, diff)
				}
				if err := trace.Validate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestBadFiles: each error names file, line and field, what is there and what
// would be accepted, and nothing that was read so far is returned.
func TestBadFiles(t *testing.T) {
	const (
		moon  = `{"timestamp": 0, "input_length": 6, "output_length": 5, "hash_ids": [0]}` + "\n"
		azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
		burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	)
	for _, tt := range []struct {
		name, text string
		format     workload.Format
		want       string
		is         error
	}{
		{"empty", "", "", "workload: no requests in f", workload.ErrEmpty},
		{"blank", "\n \r\n\t", "", "workload: no requests in f", workload.ErrEmpty},
		{"only a header", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "", "workload: no requests in f", workload.ErrEmpty},
		{"format that is none", moon, "csv", `workload: unknown format "csv": want one of mooncake, qwen, azure, burstgpt, aibrix`, workload.ErrUnknownFormat},
		{"synthetic is no file", moon, workload.Synthesized, `workload: unknown format "synthetic": want one of mooncake, qwen, azure, burstgpt, aibrix`, workload.ErrUnknownFormat},
		{"prose", "\nhello\n", "", `f:2: no known format begins with "hello"; want one of mooncake, qwen, azure, burstgpt, aibrix`, workload.ErrUnknownFormat},
		{"other JSON", `{"a":1}`, "", `f:1: no known format begins with "{\"a\":1}"; want one of mooncake, qwen, azure, burstgpt, aibrix`, workload.ErrUnknownFormat},
		{"a web page", "<!doctype html>" + strings.Repeat("x", 100), "", `f:1: no known format begins with "<!doctype html>xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…; want one of mooncake, qwen, azure, burstgpt, aibrix`, workload.ErrUnknownFormat},
		{"broken JSON at once", `{"timestamp":`, "", "f:1: broken JSON at byte 13: unexpected end of JSON input", nil},

		{"zero prompt", moon + `{"timestamp": 1, "input_length": 0, "output_length": 5, "hash_ids": []}`, "", "f:2: input_length: 0, want a whole number of tokens, 1 to 16777216", nil},
		{"zero answer", moon + `{"timestamp": 1, "input_length": 1, "output_length": 0, "hash_ids": [0]}`, "", "f:2: output_length: 0, want a whole number of tokens, 1 to 16777216", nil},
		{"negative", moon + `{"timestamp": 1, "input_length": -3, "output_length": 5, "hash_ids": []}`, "", "f:2: input_length: -3, want a whole number of tokens, 1 to 16777216", nil},
		{"absurd", moon + `{"timestamp": 1, "input_length": 16777217, "output_length": 5, "hash_ids": []}`, "", "f:2: input_length: 16777217, want a whole number of tokens, 1 to 16777216", nil},
		{"very absurd", moon + `{"timestamp": 1, "input_length": 1e300, "output_length": 5, "hash_ids": []}`, "", "f:2: input_length: 1e300, want a whole number of tokens, 1 to 16777216", nil},
		{"fraction", moon + `{"timestamp": 1, "input_length": 1.5, "output_length": 5, "hash_ids": []}`, "", "f:2: input_length: 1.5, want a whole number of tokens, 1 to 16777216", nil},
		{"text", moon + `{"timestamp": 1, "input_length": "12", "output_length": 5, "hash_ids": []}`, "", `f:2: input_length: the text 12, want a whole number of tokens, 1 to 16777216`, nil},
		{"null", moon + `{"timestamp": null, "input_length": 12, "output_length": 5, "hash_ids": []}`, "", "f:2: timestamp: missing, want a time of 0 or more in units of 1ms", nil},
		{"no time", moon + `{"input_length": 12, "output_length": 5, "hash_ids": []}`, "", "f:2: timestamp: missing, want a time of 0 or more in units of 1ms", nil},
		{"no answer", moon + `{"timestamp": 1, "input_length": 12, "hash_ids": []}`, "", "f:2: output_length: missing, want a whole number of tokens, 1 to 16777216", nil},
		{"object", moon + `{"timestamp": {}, "input_length": 12, "hash_ids": []}`, "", "f:2: timestamp: a list or an object, want a time of 0 or more in units of 1ms", nil},
		{"negative time", `{"timestamp": -1, "input_length": 12, "output_length": 1, "hash_ids": [0]}`, "", "f:1: timestamp: -1, want a time of 0 or more in units of 1ms", nil},
		{"absurd time", `{"timestamp": 1e18, "input_length": 12, "output_length": 1, "hash_ids": [0]}`, "", "f:1: timestamp: 1e18, want a time of 0 or more in units of 1ms", nil},
		{"time that overflows", `{"timestamp": 9223372036854775807, "input_length": 12, "output_length": 1, "hash_ids": [0]}`, "", "f:1: timestamp: 9223372036854775807, want a time of 0 or more in units of 1ms", nil},
		{"too long a trace", moon + `{"timestamp": 1e12, "input_length": 12, "output_length": 1, "hash_ids": [0]}`, "", "f:2: timestamp: 277777h46m40s after the first row; want at most 87840h0m0s", nil},
		{"backwards", moon + strings.Replace(moon, "0", "20", 1) + strings.Replace(moon, "0", "5", 1), "", "f:3: timestamp: 15ms before the row above it; want rows in the order of their arrival", nil},
		{"an id too few", moon + `{"timestamp": 1, "input_length": 513, "output_length": 5, "hash_ids": [1]}`, "", "f:2: hash_ids: 1 ids, want 2: 513 tokens in blocks of 512", nil},
		{"an id too many", moon + `{"timestamp": 1, "input_length": 512, "output_length": 5, "hash_ids": [1,2]}`, "", "f:2: hash_ids: 2 ids, want 1: 512 tokens in blocks of 512", nil},
		{"no ids", moon + `{"timestamp": 1, "input_length": 512, "output_length": 5}`, "", "f:2: hash_ids: missing, want a list of whole numbers", nil},
		{"id of text", moon + `{"timestamp": 1, "input_length": 513, "output_length": 5, "hash_ids": [1,"a,b"]}`, "", `f:2: hash_ids: id 2 of the list is "\"a", want a whole number from 0`, nil},
		{"id null", moon + `{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [null]}`, "", `f:2: hash_ids: id 1 of the list is "null", want a whole number from 0`, nil},
		{"id negative", moon + `{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [-1]}`, "", "f:2: hash_ids: id 1 of the list is -1, want a whole number from 0", nil},
		{"id too great", moon + `{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [18446744073709551616]}`, "", "f:2: hash_ids: id 1 of the list is 18446744073709551616, want a whole number from 0", nil},
		{"broken JSON", moon + moon + "\n" + `{"timestamp": 1, "input_length": 5,`, "", "f:4: broken JSON at byte 35: unexpected end of JSON input", nil},
		{"two objects in a row", moon + `{}{}`, "", "f:2: broken JSON at byte 3: invalid character '{' after top-level value", nil},
		{"a list", moon + `[1]`, "", "f:2: array, want an object", nil},
		{"a CSV row among JSON", moon + `1,2,3`, "", "f:2: broken JSON at byte 2: invalid character ',' after top-level value", nil},
		{"JSON as CSV", moon, workload.Azure, `f:1: TIMESTAMP: no such column in the header "{\"timestamp\": 0, \"input_length\": 6, \"output_leng"…; want the columns TIMESTAMP, ContextTokens and GeneratedTokens`, nil},

		{"qwen ids", `{"chat_id":7,"timestamp":1,"input_length":33,"output_length":9,"hash_ids":[1]}`, "", "f:1: hash_ids: 1 ids, want 2 or 3: 33 tokens in blocks of 16", nil},

		{"no column", "TIMESTAMP,ContextTokens\n", "", `f:1: GeneratedTokens: no such column in the header "TIMESTAMP,ContextTokens"; want the columns TIMESTAMP, ContextTokens and GeneratedTokens`, nil},
		{"a column less", azure + "2023-11-16 18:15:46.6805900,374\n", "", "f:3: 2 columns, want the header's 3", nil},
		{"a column more", azure + "2023-11-16 18:15:46.6805900,374,1,1\n", "", "f:3: 4 columns, want the header's 3", nil},
		{"no date", azure + "yesterday,374,1\n", "", `f:3: TIMESTAMP: "yesterday", want a time such as 2023-11-16 18:15:46.6805900`, nil},
		{"date out of range", azure + "0001-01-01 00:00:00,374,1\n", "", `f:3: TIMESTAMP: "0001-01-01 00:00:00", want a time such as 2023-11-16 18:15:46.6805900`, nil},
		{"empty date", azure + ",374,1\n", "", `f:3: TIMESTAMP: missing, want a time such as 2023-11-16 18:15:46.6805900`, nil},
		{"date backwards", azure + "2023-11-16 18:15:46.6805800,374,1\n", "", "f:3: TIMESTAMP: 10µs before the row above it; want rows in the order of their arrival", nil},
		{"zero in a table", azure + "2023-11-16 18:15:46.6805900,374,0\n", "", "f:3: GeneratedTokens: 0, want a whole number of tokens, 1 to 16777216", nil},
		{"not a number", azure + "2023-11-16 18:15:46.6805900,NaN,1\n", "", "f:3: ContextTokens: NaN, want a whole number of tokens, 1 to 16777216", nil},
		{"quote", azure + "2023-11-16 18:15:46.6805900,\"37,4\n", "", `f:3: broken CSV at byte 34: extraneous or missing " in quoted-field`, nil},
		{"no time in a table", burst + "NaN,ChatGPT,472,18,490,Conversation log", "", "f:2: Timestamp: NaN, want a time of 0 or more in units of 1s", nil},
		{"a failed call", burst + "1,ChatGPT,472,0,472,Conversation log", "", "f:2: Response tokens: 0, want a whole number of tokens, 1 to 16777216", nil},

		{"aibrix without requests", `{"timestamp":0,"requests":[]}`, "", "f:1: requests: missing or empty, want a list of one request or more", nil},
		{"aibrix with an object", `{"timestamp":0,"requests":{}}`, "", "f:1: requests: object, want a list", nil},
		{"aibrix without a prompt", `{"timestamp":0,"requests":[{"Prompt Length":1,"Output Length":1}]}`, "", "f:1: requests[0].prompt: missing or empty, want the prompt's text", nil},
		{"aibrix with a number", `{"timestamp":0,"requests":[{"Prompt Length":1,"Output Length":1,"prompt":1}]}`, "", "f:1: requests.prompt: number, want a text", nil},
		{"aibrix with a zero", `{"timestamp":0,"requests":[{"Prompt Length":1,"Output Length":1,"prompt":"a"},{"Prompt Length":0,"Output Length":1,"prompt":"a"}]}`, "", "f:1: requests[1].Prompt Length: 0, want a whole number of tokens, 1 to 16777216", nil},

		{"row too long", moon + `{"timestamp":` + strings.Repeat(" ", 16<<20) + "1}", "", "f:2: the row has more than 16 MiB", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := workload.Read(strings.NewReader(tt.text), "f", tt.format)
			if trace != nil {
				t.Error("a trace comes with the error")
			}
			if err == nil || err.Error() != tt.want {
				t.Errorf("error\n%v, want\n%s", err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

func TestRowError(t *testing.T) {
	_, err := workload.Read(strings.NewReader(`{"timestamp":1,"input_length":0,"hash_ids":[]}`), "dir/f.jsonl", "")
	e, ok := errors.AsType[*workload.RowError](fmt.Errorf("bench: %w", err))
	if !ok || e.File != "dir/f.jsonl" || e.Line != 1 || e.Field != "input_length" || e.Why == "" {
		t.Errorf("%+v", e)
	}
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write(text)
	_ = zw.Close()
	return b.Bytes()
}

// TestGzipCutShort cuts a file at every length that matters: the error names a
// line up to which the file is whole, and it is the last such line.
func TestGzipCutShort(t *testing.T) {
	whole, err := os.ReadFile(azureFile)
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for _, n := range []int{2, 5, 10, 12, 100, 5000, 50_000, len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1} {
		trace, err := workload.Read(bytes.NewReader(whole[:n]), "cut.csv.gz", "")
		e, ok := errors.AsType[*workload.RowError](err)
		if trace != nil || !ok || !errors.Is(err, workload.ErrTruncated) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes: %v, %v", n, trace, err)
		}
		want := "cut.csv.gz: the gzip stream is cut short within the first line; fetch the file again"
		if e.Line > 0 {
			want = fmt.Sprintf("cut.csv.gz:%d: the gzip stream is cut short after this line, the last whole one; fetch the file again", e.Line)
		}
		if err.Error() != want {
			t.Errorf("%d bytes: %v", n, err)
		}
		zr, err := gzip.NewReader(bytes.NewReader(whole[:n]))
		got := []byte(nil)
		if err == nil {
			got, _ = io.ReadAll(zr)
		}
		if want := bytes.Count(got, []byte("\n")); e.Line != want {
			t.Errorf("%d bytes: line %d, want %d", n, e.Line, want)
		}
		if e.Line < before {
			t.Errorf("%d bytes: line %d after %d", n, e.Line, before)
		}
		before = e.Line
	}
	if before != 10_001 {
		t.Errorf("without the last byte: line %d", before)
	}
}

func TestGzipDamaged(t *testing.T) {
	whole := pack([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"))
	sum := bytes.Clone(whole)
	sum[len(sum)-8] ^= 1
	head := bytes.Clone(whole)
	head[2] = 9
	block := bytes.Clone(whole)
	block[10] |= 6 // a block type that does not exist
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"checksum":         {sum, "f:2: the gzip stream is damaged after this line, the last whole one (gzip: invalid checksum); fetch the file again"},
		"header":           {head, "f: the gzip stream is damaged within the first line (gzip: invalid header); fetch the file again"},
		"block":            {block, "f: the gzip stream is damaged within the first line (flate: corrupt input before offset 1); fetch the file again"},
		"something behind": {append(bytes.Clone(whole), "garbage of some length"...), "f:2: the gzip stream is damaged after this line, the last whole one (gzip: invalid header); fetch the file again"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := workload.Read(bytes.NewReader(tt.data), "f", "")
			if _, ok := errors.AsType[*workload.RowError](err); !ok || trace != nil || err.Error() != tt.want || errors.Is(err, workload.ErrTruncated) {
				t.Errorf("%v, %v", trace, err)
			}
		})
	}
}

// TestGzipMembers: files that were put one behind the other.
func TestGzipMembers(t *testing.T) {
	parts := append(pack([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18")), pack([]byte(":15:46.6805900,374,44\n"))...)
	trace, err := workload.Read(bytes.NewReader(parts), "f", "")
	if err != nil || len(trace.Requests) != 1 {
		t.Errorf("%v, %v", trace, err)
	}
}

func TestOpen(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.csv")
	if _, err := workload.Open(missing, ""); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	if _, err := workload.Open(t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
	// Gzip is told from the content, whatever the name.
	whole, err := os.ReadFile(aibrixFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plain.csv")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if trace := open(t, path); len(trace.Requests) != 192 || trace.Name != "plain.csv" {
		t.Errorf("%s: %d requests", trace.Name, len(trace.Requests))
	}
}

// TestReadError: the reader's own error comes through, with its place.
func TestReadError(t *testing.T) {
	away := errors.New("disk is away")
	r := io.MultiReader(strings.NewReader("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374"), iotest.ErrReader(away))
	trace, err := workload.Read(r, "f", "")
	if trace != nil || !errors.Is(err, away) || err.Error() != "workload: read f after line 1: disk is away" {
		t.Errorf("%v, %v", trace, err)
	}
}
