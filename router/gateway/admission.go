package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

// Admission is the section `admission`.
type Admission struct {
	Core admission.Config `yaml:",inline"`
	// BandHeader is the header by which a request asks for a band, where no key
	// says which is its own; engines do not get it. Default "x-llmgw-band";
	// empty: every request has the default band, unless its key has another.
	BandHeader string `yaml:"band_header"`
}

func defaultAdmission() Admission {
	return Admission{Core: admission.DefaultConfig(), BandHeader: "x-llmgw-band"}
}

// admission is the configuration with what it shares with scraping and scoring:
// both measure the same loads against the same targets.
func (c Config) admission() admission.Config {
	a := c.Admission.Core
	a.Saturation = admission.SaturationConfig{
		TargetInflight: c.Scoring.TargetInflight, TargetWaiting: c.Scoring.TargetWaiting, KVCeiling: c.Scoring.KVCeiling,
		StaleAfter: c.Router.StaleAfter,
	}
	return a
}

// validateAdmission reports the faults of the section; those of the values that
// it shares are reported where they stand.
func (c Config) validateAdmission() []error {
	a := c.admission()
	a.Saturation = admission.DefaultSaturationConfig()
	header := router.DefaultConfig()
	header.BandHeader = c.Admission.BandHeader
	errs := []error{a.Validate(), header.Validate()}
	if h := c.Admission.BandHeader; h != "" && strings.EqualFold(h, c.Router.Core.SessionHeader) {
		errs = append(errs, fmt.Errorf("band_header: %q is router.session_header, too; want two headers", h))
	}
	return under("admission.", errs...)
}

// admitter is the router's view of an admission.Controller.
type admitter struct {
	ctl         *admission.Controller
	header      string // as the configuration spells it
	bands       []string
	defaultBand string
}

// newAdmitter makes the controller of cfg; nil if it is switched off.
func (g *Gateway) newAdmitter(cfg Config, deps Deps) (*admitter, error) {
	core := cfg.admission()
	if !core.Enabled {
		return nil, nil //nolint:nilnil // no admission is no error
	}
	parts := admission.Deps{Load: loads{g.endpoints}, Registerer: deps.Registerer}
	if g.recorder != nil {
		parts.Recorder = g.recorder.Admission()
	}
	ctl, err := admission.New(core, parts)
	if err != nil {
		return nil, err
	}
	a := &admitter{ctl: ctl, header: cfg.Admission.BandHeader, defaultBand: core.DefaultBand}
	for _, b := range core.Bands {
		a.bands = append(a.bands, b.Name)
	}
	return a, nil
}

// Admit implements [router.Admitter].
func (a *admitter) Admit(ctx context.Context, r router.Admission) (router.Lease, error) {
	req, asked := a.request(&r)
	lease, err := a.ctl.Admit(ctx, req)
	switch {
	case err == nil:
		r.Identity.Band = cmp.Or(req.Band, a.defaultBand)
		return lease, nil
	case asked && errors.Is(err, admission.ErrUnknownBand):
		return nil, a.unknownBand(req.Band)
	default:
		return nil, refusal(err)
	}
}

// request is r in admission's terms; asked: the band is what the client asks for.
func (a *admitter) request(r *router.Admission) (req admission.Request, asked bool) {
	id := r.Identity
	req = admission.Request{Pool: r.Model, Band: id.Band, Tenant: id.Tenant}
	asked = req.Band == "" && req.Tenant == "" // nobody in particular says by itself what it is
	if asked {
		req.Band = r.AskedBand
	}
	if req.Tenant == "" {
		req.Tenant = r.Session
	}
	if req.Tenant == "" {
		req.Tenant = host(r.RemoteAddr)
	}
	return req, asked
}

// host is an address without its port, so that a client's connections are one.
func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

// loads is the endpoint set as admission sees it: a pool is the endpoints of one
// model that take requests now. What is behind an open breaker has no room for
// anybody, and its load is no reason to wait.
type loads struct{ endpoints *endpoint.Set }

// Load implements [admission.LoadSource].
func (l loads) Load(pool string, dst *admission.Load) {
	now := time.Now()
	for _, e := range l.endpoints.Snapshot().ForModel(pool) {
		if !e.Admissible(now) {
			continue
		}
		one := admission.EndpointLoad{ID: e.ID(), Weight: e.Weight(), InFlight: admission.Read(float64(e.InFlight()))}
		if m := e.Load(); m != nil {
			one.MeasuredAt, one.MeasuredInFlight = m.At, admission.Read(float64(m.InFlight))
			one.Running, one.Waiting, one.KVUsedRatio = reading(m.Running), reading(m.Waiting), reading(m.KVUsedRatio)
		}
		dst.Endpoints = append(dst.Endpoints, one)
	}
}

// reading is r in admission's terms. What is out of any range is unknown there.
func reading(r engines.Reading) admission.Reading {
	if v, ok := r.Get(); ok {
		return admission.Read(v)
	}
	return admission.Reading{}
}
