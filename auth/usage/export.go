package usage

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Row is a row of usage as it is exported. Nil is not known.
type Row struct {
	RequestID    string    `json:"request_id"`
	At           time.Time `json:"at"`
	KeyID        string    `json:"key_id"`
	Owner        string    `json:"owner"`
	Asked        string    `json:"model_asked"`
	Model        string    `json:"model"`
	Endpoint     string    `json:"endpoint"`
	Provider     string    `json:"provider"`
	Path         string    `json:"path"`
	Router       string    `json:"router"`
	Stream       bool      `json:"stream"`
	Status       int       `json:"status"`
	Result       string    `json:"result"`
	Code         string    `json:"code"`
	Retries      int       `json:"retries"`
	LatencyMS    float64   `json:"latency_ms"`
	TTFTMS       *float64  `json:"ttft_ms"`
	Input        *int64    `json:"input_tokens"`
	CachedInput  *int64    `json:"cached_input_tokens"`
	Output       *int64    `json:"output_tokens"`
	Reasoning    *int64    `json:"reasoning_tokens"`
	TokensSource string    `json:"tokens_source"`
	CostNanos    *int64    `json:"cost_nanos"`
}

// NewRow is u as it is exported.
func NewRow(u *storage.Usage) Row {
	r := Row{
		RequestID: u.RequestID, At: u.At.UTC(), KeyID: u.KeyID, Owner: u.Owner, Asked: u.Asked, Model: u.Model, Endpoint: u.Endpoint,
		Provider: u.Provider, Path: u.Path, Router: u.Router, Stream: u.Stream, Status: u.Status, Result: u.Result, Code: u.Code,
		Retries: u.Retries, LatencyMS: milliseconds(u.Latency), Input: u.Tokens.Input, CachedInput: u.Tokens.CachedInput,
		Output: u.Tokens.Output, Reasoning: u.Tokens.Reasoning, TokensSource: u.Source.String(), CostNanos: u.CostNanos,
	}
	if u.TTFT != nil {
		ms := milliseconds(*u.TTFT)
		r.TTFTMS = &ms
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Rows asks the store for all rows that q chooses, a page at a time. After an
// error it ends.
func Rows(ctx context.Context, log storage.UsageLog, q storage.UsageQuery) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for {
			page, next, err := log.ListUsage(ctx, q)
			if err != nil {
				yield(Row{}, fmt.Errorf("read usage: %w", err))
				return
			}
			for i := range page {
				if !yield(NewRow(&page[i]), nil) {
					return
				}
			}
			if next == "" {
				return
			}
			q.After = next
		}
	}
}

// WriteJSON writes a JSON object a line.
func WriteJSON(w io.Writer, rows iter.Seq2[Row, error]) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for r, err := range rows {
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	return nil
}

// columns are the first line of a CSV, in the order of Row's fields.
var columns = []string{ //nolint:gochecknoglobals // constant table
	"request_id", "at", "key_id", "owner", "model_asked", "model", "endpoint", "provider", "path", "router", "stream", "status", "result",
	"code", "retries", "latency_ms", "ttft_ms", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "tokens_source",
	"cost_nanos",
}

// WriteCSV writes a line of column names and a line a row; what is not known is
// empty. Text that a spreadsheet would take for a formula gets an apostrophe in
// front (OWASP ASVS 5.0, 1.2.10).
func WriteCSV(w io.Writer, rows iter.Seq2[Row, error]) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	for r, err := range rows {
		if err != nil {
			return err
		}
		if err := out.Write(r.record()); err != nil {
			return fmt.Errorf("write usage: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}

func (r *Row) record() []string {
	float := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	known := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	ttft := ""
	if r.TTFTMS != nil {
		ttft = float(*r.TTFTMS)
	}
	return []string{
		plain(r.RequestID), r.At.Format(time.RFC3339Nano), plain(r.KeyID), plain(r.Owner), plain(r.Asked), plain(r.Model), plain(r.Endpoint),
		plain(r.Provider), plain(r.Path), plain(r.Router), strconv.FormatBool(r.Stream), strconv.Itoa(r.Status), plain(r.Result), plain(r.Code),
		strconv.Itoa(r.Retries), float(r.LatencyMS), ttft, known(r.Input), known(r.CachedInput), known(r.Output), known(r.Reasoning),
		r.TokensSource, known(r.CostNanos),
	}
}

// plain is s as text and nothing else.
func plain(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n\x00", rune(s[0])) {
		return "'" + s
	}
	return s
}
