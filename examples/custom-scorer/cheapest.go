package main

import "github.com/llmgw/llmgw/router/schedule"

// cheapest votes by what a request costs at an endpoint: 1 where it is free,
// 1/2 at the price called fair, and less the dearer it is. Prices go by pool. An
// endpoint of a pool without a price is voted 0: unknown is not free.
type cheapest struct {
	prices map[string]float64 // of a million tokens
	fair   float64            // positive
}

// Name is how the scorer is called in decisions and metrics.
func (cheapest) Name() string { return "cheapest" }

// Score writes one vote in [0,1] for each candidate. It could go by who asks,
// too, such as by whose requests may be dear: the request's Tenant and Band are
// what a Caller hook has found out.
func (c cheapest) Score(_ *schedule.Request, cs []schedule.Candidate, votes []float64) {
	for i := range cs {
		votes[i] = 0
		if price, known := c.prices[cs[i].Endpoint.Spec().Pool]; known {
			votes[i] = 1 / (1 + price/c.fair)
		}
	}
}
