package sim

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Faults is what goes wrong. The zero Faults is a healthy engine. Counts of
// events are of answers on the POST /v1 routes; in an answer that is not a
// stream, an event is one half of the body.
type Faults struct {
	// SplitBytes cuts every body into writes of so many bytes, each flushed.
	// 1 splits at every byte, in the middle of UTF-8 too. 0 is off.
	SplitBytes int `yaml:"split_bytes"`
	// SplitPause is the time between these writes. Default 0.
	SplitPause time.Duration `yaml:"split_pause"`
	// CRLF ends the lines of streams with \r\n.
	CRLF bool `yaml:"crlf"`
	// NoSpace leaves out the space after "data:" in streams.
	NoSpace bool `yaml:"no_space"`
	// CommentEvery puts a comment line before every n-th event. 0 is off.
	CommentEvery int `yaml:"comment_every"`
	// Gzip compresses bodies, whether asked for or not.
	Gzip bool `yaml:"gzip"`

	// HangHeaders takes the request and never answers.
	HangHeaders bool `yaml:"hang_headers"`
	// CloseHeaders closes the connection instead of answering.
	CloseHeaders bool `yaml:"close_headers"`
	// ResetHeaders resets the connection (RST) instead of answering.
	ResetHeaders bool `yaml:"reset_headers"`
	// HangAfterEvents sends so many events and then nothing. 0 is off.
	HangAfterEvents int `yaml:"hang_after_events"`
	// CloseAfterEvents sends so many events and then closes the connection
	// without the end of the body. 0 is off.
	CloseAfterEvents int `yaml:"close_after_events"`
	// ResetAfterEvents sends so many events and then resets the connection.
	// 0 is off.
	ResetAfterEvents int `yaml:"reset_after_events"`
	// ErrorAfterEvents sends so many events, then vLLM's error event and
	// [DONE]. Streams only. 0 is off.
	ErrorAfterEvents int `yaml:"error_after_events"`
	// WrongLength is added to the true Content-Length of answers that are
	// not streams; the bytes sent are the true ones. 0 is off.
	WrongLength int `yaml:"wrong_length"`
	// EarlyStatus is answered before the request's body is read, while the
	// client still sends it. 0 is off.
	EarlyStatus int `yaml:"early_status"`
	// CloseIdle closes the connection right after each answer without saying
	// so in a header.
	CloseIdle bool `yaml:"close_idle"`

	// Script answers the first requests on the POST /v1 routes, one entry
	// each, in order; later ones are served. It starts again with SetFaults.
	Script []Answer `yaml:"script"`

	// FailLoad spoils [Engine.Load] in its middle: memory (the card has too
	// little), context (so has the KV cache), hang (no end and not a word more).
	// "" is off.
	FailLoad string `yaml:"fail_load"`
	// CrashAfter ends [Engine.Serve] and [Engine.Idle] with an error after so
	// long, from when they began or, later, from when it is set. 0 is off.
	CrashAfter time.Duration `yaml:"crash_after"`
	// IgnoreTerm makes llmgw sim ignore SIGTERM and SIGINT.
	IgnoreTerm bool `yaml:"ignore_term"`

	// Silent accepts connections and ignores what arrives on them. It needs
	// [Engine.Serve] or [Engine.Listener].
	Silent bool `yaml:"silent"`
	// Wedge stops the batch: requests are accepted, and no token comes.
	Wedge bool `yaml:"wedge"`
	// Unhealthy makes GET /health answer 503.
	Unhealthy bool `yaml:"unhealthy"`
	// Metrics spoils GET /metrics: absent (no such page), block (never
	// answered), error (status 500), empty, garbage (no metrics), renamed (the
	// names that vLLM had before v0.12), nan (gauges that are NaN). "" is off.
	Metrics string `yaml:"metrics"`
	// MetricsDelay is waited before GET /metrics is answered. Default 0.
	MetricsDelay time.Duration `yaml:"metrics_delay"`
}

// Answer is one entry of a script.
type Answer struct {
	// Status is the HTTP status; 200 serves the request normally.
	Status int `yaml:"status"`
	// RetryAfter is the header's value, "" for none.
	RetryAfter string `yaml:"retry_after"`
	// Body is the shape of the error: "nested" as vLLM (also ""), "flat" as
	// SGLang, "string", "detail" as FastAPI, "html", "text" or "empty".
	Body string `yaml:"body"`
}

// MetricsFaults lists what Faults.Metrics may be, besides "".
func MetricsFaults() []string {
	return []string{"absent", "block", "error", "empty", "garbage", "renamed", "nan"}
}

// LoadFaults lists what Faults.FailLoad may be, besides "".
func LoadFaults() []string { return []string{failMemory, failContext, failHang} }

func answerBodies() []string {
	return []string{"", "nested", "flat", "string", "detail", "html", "text", "empty"}
}

func (f *Faults) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, n := range []struct {
		key string
		v   int
	}{
		{"split_bytes", f.SplitBytes}, {"comment_every", f.CommentEvery},
		{"hang_after_events", f.HangAfterEvents}, {"close_after_events", f.CloseAfterEvents},
		{"reset_after_events", f.ResetAfterEvents}, {"error_after_events", f.ErrorAfterEvents},
	} {
		if n.v < 0 {
			bad("faults.%s: %d is negative; want 0 (off) or more", n.key, n.v)
		}
	}
	if f.SplitPause < 0 {
		bad("faults.split_pause: %v is negative; want 0 or more", f.SplitPause)
	}
	if f.MetricsDelay < 0 {
		bad("faults.metrics_delay: %v is negative; want 0 or more", f.MetricsDelay)
	}
	if f.FailLoad != "" && !slices.Contains(LoadFaults(), f.FailLoad) {
		bad("faults.fail_load: %q is unknown; want one of %s", f.FailLoad, strings.Join(LoadFaults(), ", "))
	}
	if f.CrashAfter < 0 {
		bad("faults.crash_after: %v is negative; want 0 (off) or more", f.CrashAfter)
	}
	if f.EarlyStatus != 0 && (f.EarlyStatus < 200 || f.EarlyStatus > 599) {
		bad("faults.early_status: %d is no final status; want 0 (off) or 200 to 599", f.EarlyStatus)
	}
	if f.Metrics != "" && !slices.Contains(MetricsFaults(), f.Metrics) {
		bad("faults.metrics: %q is unknown; want one of %s", f.Metrics, strings.Join(MetricsFaults(), ", "))
	}
	for i, a := range f.Script {
		if a.Status < 200 || a.Status > 599 {
			bad("faults.script[%d].status: %d is no final status; want 200 to 599", i, a.Status)
		}
		if !slices.Contains(answerBodies(), a.Body) {
			bad("faults.script[%d].body: %q is unknown; want one of %s", i, a.Body, strings.Join(answerBodies()[1:], ", "))
		}
	}
	return errors.Join(errs...)
}

// FaultKeys lists the keys of Faults as a configuration and [ParseFaults] have
// them.
func FaultKeys() []string {
	var keys []string
	for f := range reflect.TypeFor[Faults]().Fields() {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}

// ParseFaults reads faults from text such as
// "split_bytes=1; crlf=true; metrics_delay=2s", the names being the keys of
// the configuration. Keys not named keep the value they have in base. A script
// is written "script=503 1 flat, 200", each entry being status, Retry-After
// ("-" for none) and body. The error names the first key that is unknown, with
// those that are known, or has a bad value.
func ParseFaults(base Faults, text string) (Faults, error) {
	v, keys := reflect.ValueOf(&base).Elem(), FaultKeys()
	for entry := range strings.SplitSeq(text, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		key, value, _ := strings.Cut(entry, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		field := slices.Index(keys, key)
		if field < 0 {
			return base, fmt.Errorf("faults.%s: unknown; want one of %s", key, strings.Join(keys, ", "))
		}
		if err := setFault(v.Field(field), value); err != nil {
			return base, fmt.Errorf("faults.%s: %w", key, err)
		}
	}
	return base, base.validate()
}

func setFault(field reflect.Value, value string) error {
	switch p := field.Addr().Interface().(type) {
	case *bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is no boolean; want true or false", value)
		}
		*p = b
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is no whole number", value)
		}
		*p = n
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%q is no duration; want e.g. 2s", value)
		}
		*p = d
	case *string:
		*p = value
	case *[]Answer:
		*p = nil
		for entry := range strings.SplitSeq(value, ",") {
			words := strings.Fields(entry)
			if len(words) == 0 {
				continue
			}
			status, err := strconv.Atoi(words[0])
			if err != nil {
				return fmt.Errorf("%q is no status; want e.g. 503", words[0])
			}
			a := Answer{Status: status}
			if len(words) > 1 && words[1] != "-" {
				a.RetryAfter = words[1]
			}
			if len(words) > 2 {
				a.Body = words[2]
			}
			*p = append(*p, a)
		}
	}
	return nil
}
