package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	server "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/transfer"
)

type storeCmd struct {
	Backup  storeBackupCmd  `cmd:"" help:"Write all that a store keeps into a file, as of one moment; servers may go on."`
	Restore storeRestoreCmd `cmd:"" help:"Read what backup wrote into an empty store, of the same kind or another."`
	Check   storeCheckCmd   `cmd:"" help:"Look a store through for damage; exit code 1 if there is some."`
	Migrate storeMigrateCmd `cmd:"" help:"Bring a store's schema to that of this program."`
}

// named is the store that the flags name.
func (f *storeFlags) named() (storedsn.DSN, error) {
	cfg, err := server.Load(f.Config, environ())
	if err != nil {
		return "", err
	}
	return f.dsn(cfg, "no store is named")
}

type storeBackupCmd struct {
	storeFlags
	File string `arg:"" help:"File to make; - is standard output."`
}

// Run backs a store up.
func (c *storeBackupCmd) Run(ctx context.Context, streams Streams) error {
	if err := c.run(ctx, streams); err != nil {
		return fmt.Errorf("store backup: %w", err)
	}
	return nil
}

func (c *storeBackupCmd) run(ctx context.Context, streams Streams) (err error) {
	dsn, err := c.named()
	if err != nil {
		return err
	}
	st, err := openStore(ctx, dsn, useExisting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if c.File == "-" {
		return st.Export(ctx, streams.Out)
	}
	if err := writeNew(c.File, func(w io.Writer) error { return st.Export(ctx, w) }); err != nil {
		return err
	}
	fmt.Fprintf(streams.Err, "llmgw: %s is in %s; hashes of keys are in it, keys are not\n", dsn.Where(), c.File)
	return nil
}

// writeNew makes a file that is not there yet, for its owner alone. It has its
// name only when it is whole and on disk.
func writeNew(name string, write func(io.Writer) error) (err error) {
	switch _, err := os.Lstat(name); {
	case err == nil:
		return fmt.Errorf("%s is there already; name another file, or remove it", name)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".llmgw-backup-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // of the name that it has until it is whole
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	// Link fails if somebody else has made the file meanwhile; Rename would not.
	if err := os.Link(f.Name(), name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already; name another file, or remove it", name)
		}
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type storeRestoreCmd struct {
	storeFlags
	File string `arg:"" help:"File that backup wrote; - is standard input."`
}

// Run restores a store.
func (c *storeRestoreCmd) Run(ctx context.Context, streams Streams) error {
	if err := c.run(ctx, streams); err != nil {
		return fmt.Errorf("store restore: %w", err)
	}
	return nil
}

func (c *storeRestoreCmd) run(ctx context.Context, streams Streams) (err error) {
	dsn := c.Store
	if dsn == "" {
		cfg, err := server.Load(c.Config, environ())
		if err != nil {
			return err
		}
		if dsn = cfg.Store.DSN; c.Config == "" {
			return errors.New("no store is named; name the one to make with --store, or the configuration that names it with -c")
		}
	}
	text, err := c.source(streams)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	// Before the store is touched, or made.
	if err := transfer.Verify(ctx, text); err != nil {
		return fmt.Errorf("%s cannot be restored, and nothing was changed: %w", c.File, err)
	}
	if _, err := text.Seek(0, io.SeekStart); err != nil {
		return err
	}
	st, err := openStore(ctx, dsn, useAny)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Import(ctx, text); err != nil {
		if errors.Is(err, storage.ErrExists) {
			return fmt.Errorf("the store %s keeps something already, and nothing was changed; restore into a new one, and name that in the server's configuration", dsn.Where())
		}
		return err
	}
	fmt.Fprintf(streams.Err, "llmgw: %s was restored from %s\n", dsn.Where(), c.File)
	return nil
}

// source is the file to restore. Standard input is copied to a file of its own,
// since it is read twice.
func (c *storeRestoreCmd) source(streams Streams) (*os.File, error) {
	if c.File != "-" {
		return os.Open(c.File)
	}
	if streams.In == nil {
		return nil, errors.New("there is no standard input to read from; name a file")
	}
	f, err := os.CreateTemp("", "llmgw-restore-*")
	if err != nil {
		return nil, err
	}
	// It lasts as long as it is open.
	_, copied := io.Copy(f, streams.In)
	_, back := f.Seek(0, io.SeekStart)
	if err := errors.Join(os.Remove(f.Name()), copied, back); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

type storeCheckCmd struct{ storeFlags }

// Run checks a store.
func (c *storeCheckCmd) Run(ctx context.Context, streams Streams) error {
	dsn, err := c.named()
	if err != nil {
		return fmt.Errorf("store check: %w", err)
	}
	st, err := openStore(ctx, dsn, useExisting)
	if err == nil {
		err = errors.Join(st.Check(ctx), st.Close())
	}
	if err != nil {
		return fmt.Errorf("store check: %w", err)
	}
	_, err = fmt.Fprintf(streams.Out, "%s: ok\n", dsn.Where())
	return err
}

type storeMigrateCmd struct{ storeFlags }

// Run migrates a store.
func (c *storeMigrateCmd) Run(ctx context.Context, streams Streams) error {
	if err := c.run(ctx, streams); err != nil {
		return fmt.Errorf("store migrate: %w", err)
	}
	return nil
}

func (c *storeMigrateCmd) run(ctx context.Context, streams Streams) (err error) {
	dsn, err := c.named()
	if err != nil {
		return err
	}
	st, err := storedsn.Open(dsn, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	have, newest, err := st.Schema(ctx)
	if err != nil {
		return err
	}
	if err := st.Open(ctx); err != nil {
		return err
	}
	switch have {
	case newest:
		_, err = fmt.Fprintf(streams.Out, "%s: version %d already\n", dsn.Where(), newest)
	case 0:
		_, err = fmt.Fprintf(streams.Out, "%s: made, version %d\n", dsn.Where(), newest)
	default:
		_, err = fmt.Fprintf(streams.Out, "%s: version %d → %d\n", dsn.Where(), have, newest)
	}
	return err
}
