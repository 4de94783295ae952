package admission_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/admission"
)

// oneEngine says that the pool has one engine, which runs four at once.
type oneEngine struct{}

func (oneEngine) Load(_ string, dst *admission.Load) {
	dst.Endpoints = append(dst.Endpoints, admission.EndpointLoad{ID: "gpu-1", BatchCapacity: admission.Read(4)})
}

func Example() {
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	cfg.QueueCapacityPerBand = 0 // refuse instead of queueing
	ctl, err := admission.New(cfg, admission.Deps{Load: oneEngine{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// go ctl.Run(ctx)

	ctx := context.Background()
	for range 3 {
		lease, err := ctl.Admit(ctx, admission.Request{Pool: "qwen-32b", Band: "bronze", Tenant: "nightly"})
		if err == nil {
			fmt.Println("bronze runs")
			defer lease.Release()
			continue
		}
		if rejected, ok := errors.AsType[*admission.RejectedError](err); ok {
			fmt.Println("bronze:", rejected.Reason, "come again in", rejected.RetryAfter)
		}
	}
	lease, err := ctl.Admit(ctx, admission.Request{Pool: "qwen-32b", Band: "platinum"})
	fmt.Println("platinum runs:", err == nil)
	lease.Release()
	// Output:
	// bronze runs
	// bronze runs
	// bronze: queue_full come again in 1s
	// platinum runs: true
}

// What a core decides is a value, so a program can ask it under a time of its
// own.
func ExampleCore() {
	core, err := admission.NewCore(admission.DefaultConfig(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var load admission.Load
	oneEngine{}.Load("m", &load)
	now := start()
	core.Step(now, admission.PoolLoad{Pool: "m", Load: &load})

	var first admission.Ticket
	for i := range 5 {
		ticket, granted, err := core.Offer(now, admission.Request{Pool: "m", Band: "gold", Tenant: fmt.Sprint("tenant ", i)})
		fmt.Println(ticket.ID(), granted, err)
		if i == 0 {
			first = ticket
		}
	}
	core.Release(now, first)
	for _, d := range core.Step(now) {
		fmt.Println("then", d.ID)
	}
	// Output:
	// 1 true <nil>
	// 2 true <nil>
	// 3 true <nil>
	// 4 true <nil>
	// 5 false <nil>
	// then 5
}
