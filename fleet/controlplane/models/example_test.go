package models_test

import (
	"context"
	"fmt"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Whoever acts on the catalog takes a snapshot, and waits for the next one.
func Example() {
	ctx := context.Background()
	m, err := models.New([]catalog.Model{{Name: "tiny"}}, models.Deps{Store: new(store)}) // or any storage.Store
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		if _, err := m.AddModel(ctx, &apipb.AddModelRequest{Definition: "name: large\nfallbacks: [tiny]\n", Actor: "ada"}); err != nil {
			fmt.Println(err)
		}
	}()
	for now := m.Current(); ; now = m.Current() {
		if large, there := now.Catalog.Resolve("large"); there {
			fmt.Println(large.Name, large.Fallbacks)
			return
		}
		<-now.Changed()
	}
	// Output: large [tiny]
}
