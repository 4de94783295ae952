// Package storedsn opens the store that a DSN names, so that the server's
// configuration and the commands' flags mean the same by one text:
//
//	sqlite:llmgw.db                           a file, here relative to where the process runs
//	sqlite:/var/lib/llmgw/llmgw.db            likewise, absolute; sqlite:///var/… is the same
//	postgres://user:password@host/database    a PostgreSQL server; postgresql:// is the same
package storedsn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/postgres"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// ErrInvalid says that a text is no DSN. What it wraps never repeats the text,
// which may hold a password.
var ErrInvalid = errors.New("no DSN of a store")

// Store is a store that is not open yet. Until Open or Run has opened it, its
// methods return storage.ErrUnavailable.
type Store interface {
	storage.Store
	storage.Transferer
	// Open opens the store and brings its schema to this program's, or says why
	// that cannot be done now. If it is open it does nothing.
	Open(ctx context.Context) error
	// Schema returns the version of the schema, 0 for none, and the newest, to
	// which Open brings it. It changes nothing, and the store need not be open.
	Schema(ctx context.Context) (have, newest int, err error)
	// Run opens the store, trying for as long as it takes, and keeps it in order
	// until ctx is done. Call it once, where Open is not enough: in what lasts.
	Run(ctx context.Context) error
}

// DSN names a store. It may hold a password: to print it, in whatever way, shows
// what String does. Convert it to a string to have all of it.
type DSN string

// Validate returns what is wrong with the text, without repeating it.
func (d DSN) Validate() error {
	_, err := d.parse()
	return err
}

// String returns the DSN without what may be secret.
func (d DSN) String() string {
	t, err := d.parse()
	switch {
	case d == "":
		return ""
	case err != nil:
		return "<not shown>"
	case t.path != "":
		return "sqlite:" + t.path
	}
	shown := url.URL{Scheme: "postgres", Host: t.url.Host, Path: t.url.Path}
	if t.url.User != nil {
		shown.User = url.User("hidden")
	}
	return shown.String()
}

// Where returns what String does, with a file by its whole path, so that it says
// the same wherever a process runs.
func (d DSN) Where() string {
	if t, err := d.parse(); err == nil && t.path != "" {
		if whole, err := filepath.Abs(t.path); err == nil {
			return "sqlite:" + whole
		}
	}
	return d.String()
}

// File returns the path of the store's file; empty if it is none.
func (d DSN) File() string {
	t, err := d.parse()
	if err != nil {
		return ""
	}
	return t.path
}

// GoString implements [fmt.GoStringer].
func (d DSN) GoString() string { return fmt.Sprintf("storedsn.DSN(%q)", d.String()) }

// LogValue implements [slog.LogValuer].
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText implements [encoding.TextMarshaler], by String: what a
// configuration is printed by.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It takes any text, since
// its error would be shown together with it; see Validate.
func (d *DSN) UnmarshalText(b []byte) error {
	*d = DSN(b)
	return nil
}

// Open returns the store that dsn names, which touches no file and dials nobody
// until its own Open or Run. A nil logger discards, a nil reg leaves metrics
// unregistered.
func Open(dsn DSN, logger *slog.Logger, reg prometheus.Registerer) (Store, error) {
	t, err := dsn.parse()
	if err != nil {
		return nil, err
	}
	if t.path != "" {
		cfg := sqlite.DefaultConfig()
		cfg.Path = t.path
		return sqlite.New(cfg, sqlite.Deps{Logger: logger, Registerer: reg})
	}
	cfg := postgres.DefaultConfig()
	cfg.DSN = string(dsn)
	return postgres.New(cfg, postgres.Deps{Logger: logger, Registerer: reg})
}

// target is where a store is: one of the two.
type target struct {
	path string
	url  *url.URL
}

func (d DSN) parse() (target, error) {
	fault := func(what string) (target, error) {
		return target{}, fmt.Errorf("%w: %s; want e.g. sqlite:/var/lib/llmgw/llmgw.db or postgres://user:password@host:5432/database", ErrInvalid, what)
	}
	scheme, rest, ok := strings.Cut(string(d), ":")
	switch {
	case d == "":
		return fault("it is empty")
	case !ok:
		return fault("it has no scheme")
	case scheme == "sqlite":
		if after, ok := strings.CutPrefix(rest, "//"); ok {
			if !strings.HasPrefix(after, "/") {
				return fault("what follows sqlite:// is no absolute path, and a relative one stands right after sqlite:")
			}
			rest = after
		}
		cfg := sqlite.DefaultConfig()
		cfg.Path = rest
		if cfg.Validate() != nil {
			return fault("what follows sqlite: is no name of a file")
		}
		return target{path: rest}, nil
	case scheme == "postgres" || scheme == "postgresql":
		cfg := postgres.DefaultConfig()
		cfg.DSN = string(d)
		u, err := url.Parse(string(d))
		// A slash in a password that was not escaped makes the rest of it a path.
		if err != nil || cfg.Validate() != nil || !strings.HasPrefix(rest, "//") || strings.Contains(u.Path, "@") {
			return fault("it cannot be read as a URL; special characters of a password are written as %2F and the like")
		}
		return target{url: u}, nil
	default:
		return fault("its scheme is neither sqlite nor postgres")
	}
}
