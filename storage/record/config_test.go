package record_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage/record"
)

func TestConfigFaults(t *testing.T) {
	tests := []struct {
		name   string
		change func(*record.Config)
		want   string // substring; "" for none
	}{
		{"defaults", func(*record.Config) {}, ""},
		{"smallest", func(c *record.Config) {
			*c = record.Config{Dir: "d", MaxBytes: 1 << 20, MaxAge: time.Minute, BufferBytes: 64 << 10, MaxEntryBytes: 1, FlushInterval: 10 * time.Millisecond}
		}, ""},
		{"no directory", func(c *record.Config) { c.Dir = "" }, "dir: "},
		{"few bytes", func(c *record.Config) { c.MaxBytes = 1<<20 - 1 }, "max_bytes: 1048575"},
		{"fewer bytes than buffers", func(c *record.Config) { c.MaxBytes = 4*c.BufferBytes - 1 }, "max_bytes: "},
		{"short age", func(c *record.Config) { c.MaxAge = time.Second }, "max_age: 1s"},
		{"small buffer", func(c *record.Config) { c.BufferBytes, c.MaxEntryBytes = 1<<10, 1 }, "buffer_bytes: 1024"},
		{"an entry does not fit", func(c *record.Config) { c.MaxEntryBytes = c.BufferBytes }, "buffer_bytes: "},
		{"no entry", func(c *record.Config) { c.MaxEntryBytes = 0 }, "max_entry_bytes: 0"},
		{"entry beyond the format", func(c *record.Config) { c.MaxEntryBytes, c.BufferBytes, c.MaxBytes = 1<<24+1, 1<<26, 1<<29 }, "max_entry_bytes: 16777217"},
		{"no interval", func(c *record.Config) { c.FlushInterval = 0 }, "flush_interval: 0s"},
		{"negative sync", func(c *record.Config) { c.SyncInterval = -1 }, "sync_interval: -1ns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := record.DefaultConfig()
			cfg.Dir = "d"
			tt.change(&cfg)
			err := cfg.Validate()
			if tt.want == "" {
				if err != nil {
					t.Errorf("Validate: %v", err)
				}
				return
			}
			if !errors.Is(err, record.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Validate: %v, want ErrInvalid with %q", err, tt.want)
			}
			if _, err := record.New(cfg, record.Deps{Key: record.NewKey()}); !errors.Is(err, record.ErrInvalid) {
				t.Errorf("New: %v, want ErrInvalid", err)
			}
		})
	}
	// All faults are told at once.
	err := record.Config{SyncInterval: -1}.Validate()
	for _, key := range []string{"dir", "max_bytes", "max_age", "buffer_bytes", "max_entry_bytes", "flush_interval", "sync_interval"} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("the error does not name %s:\n%v", key, err)
		}
	}
	cfg := record.DefaultConfig()
	cfg.Dir = "d"
	if _, err := record.New(cfg, record.Deps{}); !errors.Is(err, record.ErrInvalid) || !strings.Contains(err.Error(), "KeyFile") {
		t.Errorf("without a key: %v", err)
	}
}

// Every field's comment says the default that DefaultConfig has.
func TestDefaultsAreDocumented(t *testing.T) {
	want := map[string]string{
		"Dir": "Required.", "MaxBytes": "Default 512 MiB", "MaxAge": "Default 72h", "BufferBytes": "Default 8 MiB",
		"MaxEntryBytes": "Default 1 MiB", "FlushInterval": "Default 1s", "SyncInterval": "Default 30s",
	}
	if got, want := record.DefaultConfig(), (record.Config{
		MaxBytes: 512 << 20, MaxAge: 72 * time.Hour, BufferBytes: 8 << 20,
		MaxEntryBytes: 1 << 20, FlushInterval: time.Second, SyncInterval: 30 * time.Second,
	}); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			comments[f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
		return false
	})
	for field := range reflect.TypeFor[record.Config]().Fields() {
		if !strings.Contains(comments[field.Name], want[field.Name]) || want[field.Name] == "" {
			t.Errorf("the comment of %s is %q, want it to say %q", field.Name, comments[field.Name], want[field.Name])
		}
	}
}
