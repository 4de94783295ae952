package prefix_test

import (
	"fmt"
	"strings"

	"github.com/llmgw/llmgw/router/prefix"
)

// A request is looked up, sent where it was decided, and the engine's answer
// corrects what is believed.
func Example() {
	index, err := prefix.New(prefix.DefaultConfig(), prefix.Deps{})
	if err != nil {
		panic(err)
	}
	first, _ := index.Add("model")
	second, _ := index.Add("model")
	system := strings.Repeat("You are a helpful assistant. ", 40)

	ask := func(question string, endpoint prefix.ID, cached int64) {
		var chain prefix.Chain
		chain.Reset(prefix.Root("model"))
		_, _ = chain.WriteString(system + question)
		var found prefix.Result
		index.Lookup(&chain, &found)
		for _, m := range found.Matches {
			fmt.Printf("%q: endpoint %d holds %d bytes\n", question, m.ID.Slot(), m.Bytes)
		}
		sent := index.Send(endpoint, &chain)
		index.Observe(sent, &chain, prefix.Usage{PromptTokens: 240, CachedTokens: cached, CachedKnown: true})
	}
	ask("Who are you?", first, 0)
	ask("What is a prefix?", first, 224)
	ask("And a suffix?", second, 0)
	ask("Thank you.", first, 224)
	index.Remove(first)
	ask("Are you there?", second, 224)
	// Output:
	// "What is a prefix?": endpoint 1 holds 1152 bytes
	// "And a suffix?": endpoint 1 holds 1152 bytes
	// "Thank you.": endpoint 1 holds 1152 bytes
	// "Thank you.": endpoint 2 holds 1152 bytes
	// "Are you there?": endpoint 2 holds 1152 bytes
}

// Engines that publish their KV-cache events need no belief.
func ExampleExact() {
	index, err := prefix.NewExact(prefix.DefaultExactConfig(), prefix.Deps{})
	if err != nil {
		panic(err)
	}
	model := prefix.Root("model")
	endpoint, _ := index.Add(model)
	err = index.Stored(endpoint, prefix.Stored{
		Blocks: []uint64{0xabc, 0xdef}, // as the engine calls them
		Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8}, BlockTokens: 4,
	})
	if err != nil {
		panic(err)
	}
	var found prefix.Result
	index.Lookup(prefix.Prompt{Root: model, Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}, &found)
	fmt.Println(found.Matches[0].Tokens)
	_ = index.Removed(endpoint, prefix.Removed{Blocks: []uint64{0xdef}})
	index.Lookup(prefix.Prompt{Root: model, Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}, &found)
	fmt.Println(found.Matches[0].Tokens)
	// Output:
	// 8
	// 4
}
