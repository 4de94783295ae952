// Package discover finds engines that somebody else started and says to a
// control plane that they are there.
//
// It starts nothing, stops nothing and configures nothing. It does not decide
// who may use what it found: a control plane asks each engine itself what it
// serves, and shows it to nobody before an operator names it.
//
//	Source ──candidates──▶ Scanner ──GET /v1/models──▶ engines
//	(ports of a host,                                    │ named, each once
//	 a cluster: kube)                                    ▼
//	                                      Agent: one keeper for each
//	                                                     │ every Interval
//	                                                     ▼
//	                                      Registrar: POST /admin/providers/register
//
// A [Source] lists addresses at which an engine might answer: [PortScan] the
// ports of a host, package kube what a Kubernetes cluster lets in from outside.
// A [Scanner] asks them all, few at once and each with a deadline of its own, and
// keeps those that answer as an engine does. An [Agent] looks on one clock and
// renews leases on another, so that a scan that takes long lets no lease lapse;
// it stops for nothing but its context. A [Client] is the way to the control
// plane.
//
// What never is an address of an engine, whoever names it: the loopback,
// link-local addresses, bridges of containers, pods and cluster IPs. See [Fence].
package discover
