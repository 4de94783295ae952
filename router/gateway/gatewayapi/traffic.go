package gatewayapi

import (
	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/fleet/console"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
)

// Traffic is what goes through a gateway as [console.Traffic].
type Traffic struct{ Gateway *gateway.Gateway }

var _ console.Traffic = Traffic{}

// Traffic implements console.Traffic.
func (t Traffic) Traffic() console.TrafficReading { return reading(t.Gateway.Traffic()) }

// reading is what goes through a gateway in the console's terms. A request that an
// engine answered with an error was turned away by it, as one that the router or a hook
// turned away was: neither is a fault of the fleet's.
func reading(now gateway.Traffic) console.TrafficReading {
	out := console.TrafficReading{HasPools: now.HasAdmission}
	at := map[string]int{} // in out.Models
	get := func(name string) *console.ModelTraffic {
		i, there := at[name]
		if !there {
			i = len(out.Models)
			at[name] = i
			// What no endpoint has is none, except of no model in particular.
			out.Models = append(out.Models, console.ModelTraffic{Model: name, InFlight: now.InFlight[name], HasInFlight: name != ""})
		}
		return &out.Models[i]
	}
	for i := range now.Models {
		t := &now.Models[i]
		m := get(t.Model)
		for r, n := range t.Results {
			m.Requests += n
			switch router.Result(r) {
			case router.ResultNoEndpoint, router.ResultFailed, router.ResultCut, router.ResultFault:
				m.Failed += n
			case router.ResultEngineRefused, router.ResultRefused:
				m.Refused += n
			case router.ResultCanceled:
				m.Canceled += n
			case router.ResultOK, router.ResultUnset:
			}
		}
		m.OutputTokens, m.HasTokens = t.OutputTokens, t.OutputTokens > 0
	}
	for name := range now.InFlight {
		get(name)
	}
	for name, n := range now.Waking {
		get(name).Waking = n
	}
	for i := range now.Pools {
		out.Pools = append(out.Pools, pool(&now.Pools[i]))
	}
	return out
}

func pool(p *admission.PoolState) console.Pool {
	out := console.Pool{Name: p.Name, Leases: p.Leases, Saturation: p.Saturation, HasSaturation: p.HasSaturation}
	for _, b := range p.Bands {
		out.Bands = append(out.Bands, console.Band(b))
	}
	return out
}
