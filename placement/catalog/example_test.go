package catalog_test

import (
	"fmt"

	"github.com/llmgw/llmgw/placement/catalog"
)

func Example() {
	c, err := catalog.New([]catalog.Model{
		{Name: "qwen3-32b", Aliases: []string{"large"}, Fallbacks: []string{"small"}},
		{Name: "qwen3-8b", Aliases: []string{"small"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, ok := c.Resolve("large")
	fmt.Println(ok, m.Name, m.Fallbacks)

	err = catalog.Validate([]catalog.Model{
		{Name: "qwen3-32b", Aliases: []string{"large"}},
		{Name: "large"},
	})
	fmt.Println(err)
	// Output:
	// true qwen3-32b [qwen3-8b]
	// models[0].aliases[0]: "large" is already the name of models[1]; a name or alias leads to one model
}

// A definition is read as an entry of a configuration is: every fault with its line.
func ExampleParse() {
	d, err := catalog.Parse("qwen.yaml", []byte(`
name: qwen3-32b
source: /models/Qwen3-32B
profile:
  engine: vllm
  tensor_parallel: 4
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, runs := d.Models[0].RunProfile()
	fmt.Println(runs, p.Model, p.ServedNames, p.Cards())

	_, err = catalog.Parse("qwen.yaml", []byte(`
name: qwen3-32b
source: /models/Qwen3-32B
profile:
  engine: vllm
  tensor_paralel: 4
  ranks: 3
`))
	fmt.Println(err)
	// Output:
	// true /models/Qwen3-32B [qwen3-32b] 4
	// qwen.yaml:6: profile.tensor_paralel: unknown key; did you mean tensor_parallel?
	// qwen.yaml:7: profile.ranks: 1 cards cannot be divided over 3 ranks; make tensor × pipeline × data a multiple of it
}
