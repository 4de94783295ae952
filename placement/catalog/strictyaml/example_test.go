package strictyaml_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

type settings struct {
	Retries  int           `yaml:"retries"`
	Patience time.Duration `yaml:"patience"`
}

func (s *settings) Validate() error {
	if s.Retries < 0 {
		return errors.New("retries: is negative; want 0 or more")
	}
	return nil
}

func Example() {
	s := settings{Retries: 2, Patience: 5 * time.Second} // the defaults
	_, err := strictyaml.Load(&s, strictyaml.Source{File: "s.yaml", Data: []byte("retries: -1\npatiense: 3s\n")})
	fmt.Println(err)

	s = settings{Retries: 2, Patience: 5 * time.Second}
	_, err = strictyaml.Load(&s, strictyaml.Source{File: "s.yaml", Data: []byte("retries: 0\n")})
	fmt.Println(s.Retries, s.Patience, err)
	// Output:
	// s.yaml:1: retries: is negative; want 0 or more
	// s.yaml:2: patiense: unknown key; did you mean patience?
	// 0 5s <nil>
}
