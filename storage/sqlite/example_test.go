package sqlite_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// A program that serves starts Run beside its other goroutines and goes on at
// once. A command that ends soon calls Open instead, and fails if that does.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := sqlite.DefaultConfig()
	cfg.Path = filepath.Join(dir, "llmgw.db")
	store, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx := context.Background()
	if err := store.Open(ctx); err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	key := storage.Key{ID: "key_1", Hash: sha256.Sum256([]byte("a secret of 256 random bits")), Owner: "ada", CreatedAt: now}
	why := storage.Audit{ID: "audit_1", At: now, Actor: "example", Action: "key.create", Target: key.ID}
	if err := store.CreateKey(ctx, key, why); err != nil {
		log.Fatal(err)
	}
	found, err := store.KeyByHash(ctx, sha256.Sum256([]byte("a secret of 256 random bits")))
	fmt.Println(found.ID, found.Owner, found.Usable(now), err)
	// Output: key_1 ada true <nil>
}
