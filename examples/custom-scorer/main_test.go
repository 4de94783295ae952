package main

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/schedule"
)

// The vote stands in the explained decision, and decides it.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"200 from own-1\n", "thrifty picks own-1 in band gold\n", "cheapest 1.00*3", "cheapest 0.25*3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// The scheduler alone, without network or clock: requests go to the free
// machine until it is so busy that waiting there would cost more than money.
func TestSpillsOver(t *testing.T) {
	cfg := gateway.DefaultConfig()
	profile, err := thrifty(cfg)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := schedule.New(cfg.Scoring, schedule.Deps{Profiles: []schedule.Profile{profile}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	const nowhere = "http://127.0.0.1:1"
	err = set.Replace([]endpoint.Spec{
		at("rented-1", "cloud", nowhere).Spec, at("own-1", "cellar", nowhere).Spec, at("unpriced-1", "attic", nowhere).Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	pool, now := set.Snapshot().All(), time.Unix(0, 0)
	sent := map[string]int{}
	for sent["rented-1"] == 0 {
		e, _, err := scheduler.Decide("thrifty", &schedule.Request{Model: "sim-8b", Now: now}, pool, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent[e.ID()]++ // and never ends: its place stays taken
	}
	if own := sent["own-1"]; own < 5 || own > 100 || sent["unpriced-1"] != 0 {
		t.Errorf("before the first rented one: %v", sent)
	}
}
