package schedule_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

func Example() {
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = set.Replace([]endpoint.Spec{
		{ID: "gpu-1", URL: "http://10.0.0.5:8000", Models: []endpoint.Model{{Name: "chat"}}},
		{ID: "gpu-2", URL: "http://10.0.0.6:8000", Models: []endpoint.Model{{Name: "chat"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}

	now := time.Now()
	pool := set.Snapshot().ForModel("chat")
	pool[0].SetLoad(&endpoint.LoadState{Load: engines.Load{Running: engines.Read(40), Waiting: engines.Read(9)}, At: now})
	pool[1].SetLoad(&endpoint.LoadState{Load: engines.Load{Running: engines.Read(12), Waiting: engines.Read(0)}, At: now})

	req := &schedule.Request{Model: "chat", Now: now}
	e, held, err := s.Decide(schedule.Chat, req, pool, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("goes to", e.ID())
	e.Failed(now)
	held.Release()

	req.Tried = append(req.Tried, e)
	e, held, err = s.Decide(schedule.Chat, req, pool, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("then to", e.ID())
	e.CoolDown(now, 2*time.Second)
	held.Release()

	req.Tried = append(req.Tried, e)
	_, _, err = s.Decide(schedule.Chat, req, pool, nil, nil)
	fmt.Println(errors.Is(err, schedule.ErrNoEndpoint), err)
	// Output:
	// goes to gpu-2
	// then to gpu-1
	// true schedule: no endpoint for model "chat": 2 serve it, 2 dropped by untried
}
