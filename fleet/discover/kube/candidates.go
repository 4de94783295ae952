package kube

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/llmgw/llmgw/fleet/discover"
)

// Annotation on a Service says by which address, http:// or https://, it is to be
// registered, instead of what its type gives.
const Annotation = "llmgw.dev/advertise"

// Lists are what a cluster holds at one time.
type Lists struct {
	Services []corev1.Service
	Pods     []corev1.Pod
	Nodes    []corev1.Node
}

// Options are what the cluster does not say of itself.
type Options struct {
	// Cluster is its name, the first part of the engines' names; "" leaves it out.
	Cluster string
	// Advertise is the host by which NodePorts are reached; "" means a node's
	// InternalIP. In a cluster of one node it stands for that node's address
	// everywhere.
	Advertise string
}

// Candidates returns where engines of a cluster might answer, and the networks of
// pods and cluster IPs, in which nothing may be registered. The order of the
// lists makes no difference. It keeps no argument.
//
// In order of preference, which counts where several stand for one backend:
// Services by their annotation; pods, by host network or host port, at their
// node's InternalIP; load balancers; node ports. A Service that has a cluster IP
// alone is none, nor is what speaks no TCP.
func Candidates(in Lists, opts Options) discover.Listing {
	c := newCluster(in, opts)
	var annotated, balanced, ported []discover.Candidate
	for i := range c.services {
		s := &c.services[i]
		if address, ok := advertised(s); ok {
			annotated = append(annotated, c.annotated(s, address))
			continue
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			balanced = append(balanced, c.balanced(s)...)
		}
		// A load balancer has node ports too, unless it says that it has none.
		if s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			ported = append(ported, c.ported(s)...)
		}
	}
	var onHosts []discover.Candidate
	for i := range c.pods {
		onHosts = append(onHosts, c.onHost(&c.pods[i])...)
	}
	return discover.Listing{
		Candidates: slices.Concat(annotated, onHosts, balanced, ported),
		Never:      c.never,
	}
}

// cluster is what the rules look up.
type cluster struct {
	opts     Options
	services []corev1.Service // by namespace and name
	pods     []corev1.Pod     // those that run, likewise
	nodes    map[string]node
	names    []string // of nodes, sorted
	never    []netip.Prefix
}

type node struct {
	address string // InternalIP; "" without one
	ready   bool
}

func newCluster(in Lists, opts Options) *cluster {
	c := &cluster{opts: opts, nodes: make(map[string]node, len(in.Nodes))}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		c.nodes[n.Name] = node{address: internalIP(n), ready: ready(n)}
		c.names = append(c.names, n.Name)
		c.forbidNetworks(append([]string{n.Spec.PodCIDR}, n.Spec.PodCIDRs...))
	}
	slices.Sort(c.names)
	for _, s := range in.Services {
		c.services = append(c.services, s)
		c.forbid(append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...))
	}
	slices.SortFunc(c.services, func(a, b corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range in.Pods {
		if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		c.pods = append(c.pods, p)
		if !p.Spec.HostNetwork {
			addresses := []string{p.Status.PodIP}
			for _, ip := range p.Status.PodIPs {
				addresses = append(addresses, ip.IP)
			}
			c.forbid(addresses)
		}
	}
	slices.SortFunc(c.pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.never, func(a, b netip.Prefix) int { return cmp.Compare(a.String(), b.String()) })
	c.never = slices.Compact(c.never)
	return c
}

// forbid notes addresses; what is none, such as the None of a headless Service,
// is passed over.
func (c *cluster) forbid(addresses []string) {
	for _, text := range addresses {
		if ip, err := netip.ParseAddr(text); err == nil {
			ip = ip.Unmap()
			c.never = append(c.never, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
}

func (c *cluster) forbidNetworks(networks []string) {
	for _, text := range networks {
		if n, err := netip.ParsePrefix(text); err == nil {
			c.never = append(c.never, n.Masked())
		}
	}
}

// internalIP is the node's InternalIP, of several the first of IPv4.
func internalIP(n *corev1.Node) string {
	var found string
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if a.Type != corev1.NodeInternalIP || err != nil {
			continue
		}
		if ip.Is4() {
			return a.Address
		}
		if found == "" {
			found = a.Address
		}
	}
	return found
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// advertised is the address that the annotation of s names.
func advertised(s *corev1.Service) (string, bool) {
	base, err := discover.BaseURL(strings.TrimSpace(s.Annotations[Annotation]))
	return base, err == nil
}

func (c *cluster) candidate(base, node, backend, origin string) discover.Candidate {
	return discover.Candidate{BaseURL: base, Node: node, Prefix: []string{c.opts.Cluster, node}, Backend: backend, Origin: origin}
}

func origin(s *corev1.Service) string { return "service " + s.Namespace + "/" + s.Name }

func (c *cluster) annotated(s *corev1.Service, address string) discover.Candidate {
	picked := c.picked(s)
	// Of several ports the annotation does not say which it stands for.
	var backend string
	if tcp := tcpPorts(s); len(tcp) == 1 {
		backend = backendOf(picked, tcp[0])
	}
	return c.candidate(address, onlyNode(picked), backend, origin(s))
}

func (c *cluster) balanced(s *corev1.Service) []discover.Candidate {
	picked := c.picked(s)
	var out []discover.Candidate
	for _, in := range s.Status.LoadBalancer.Ingress {
		host := cmp.Or(in.IP, in.Hostname)
		if host == "" {
			continue
		}
		for _, p := range tcpPorts(s) {
			out = append(out, c.candidate(address(host, p.Port), onlyNode(picked), backendOf(picked, p), origin(s)))
		}
	}
	return out
}

func (c *cluster) ported(s *corev1.Service) []discover.Candidate {
	picked := c.picked(s)
	host := cmp.Or(c.opts.Advertise, c.entry(s, picked))
	if host == "" {
		return nil
	}
	var out []discover.Candidate
	for _, p := range tcpPorts(s) {
		if p.NodePort != 0 {
			out = append(out, c.candidate(address(host, p.NodePort), onlyNode(picked), backendOf(picked, p), origin(s)))
		}
	}
	return out
}

// entry is the InternalIP by which the node ports of s are reached: of a node that
// runs one of its pods, for that takes no further hop, and with
// externalTrafficPolicy Local no other answers; else of any. A node that is ready
// goes before one that is not.
func (c *cluster) entry(s *corev1.Service, picked []*corev1.Pod) string {
	var best string
	most := -1
	for _, name := range c.names {
		n := c.nodes[name]
		holds := slices.ContainsFunc(picked, func(p *corev1.Pod) bool { return p.Spec.NodeName == name })
		if n.address == "" || (!holds && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal) {
			continue
		}
		worth := 0
		if n.ready {
			worth += 2
		}
		if holds {
			worth++
		}
		if worth > most {
			best, most = n.address, worth
		}
	}
	return best
}

// onHost returns a candidate for each port that a pod has on its node.
func (c *cluster) onHost(p *corev1.Pod) []discover.Candidate {
	host := c.nodes[p.Spec.NodeName].address
	if c.opts.Advertise != "" && len(c.names) == 1 {
		host = c.opts.Advertise
	}
	var out []discover.Candidate
	for _, h := range hostPorts(p) {
		at := host
		if ip, err := netip.ParseAddr(h.ip); err == nil && !ip.IsUnspecified() {
			// Bound to one address of the node. The loopback is refused where all are.
			at = h.ip
		}
		if at == "" {
			continue
		}
		out = append(out, c.candidate(address(at, h.port), p.Spec.NodeName, fmt.Sprintf("%s:%d", p.UID, h.inside), "pod "+p.Namespace+"/"+p.Name))
	}
	return out
}

// picked returns the running pods that the selector of s picks, none without one.
func (c *cluster) picked(s *corev1.Service) []*corev1.Pod {
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	var out []*corev1.Pod
	for i := range c.pods {
		p := &c.pods[i]
		if p.Namespace != s.Namespace {
			continue
		}
		fits := true
		for key, want := range s.Spec.Selector {
			if got, ok := p.Labels[key]; !ok || got != want {
				fits = false
				break
			}
		}
		if fits {
			out = append(out, p)
		}
	}
	return out
}

// onlyNode is the node of all pods, or "" if there are none or several.
func onlyNode(pods []*corev1.Pod) string {
	var name string
	for _, p := range pods {
		if name != "" && name != p.Spec.NodeName {
			return ""
		}
		name = p.Spec.NodeName
	}
	return name
}

// backendOf says which ports of which pods stand behind a port of a Service, or ""
// if that is not known.
func backendOf(pods []*corev1.Pod, p corev1.ServicePort) string {
	var out []string
	for _, pod := range pods {
		inside, ok := targetPort(pod, p)
		if !ok {
			return ""
		}
		out = append(out, fmt.Sprintf("%s:%d", pod.UID, inside))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func tcpPorts(s *corev1.Service) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range s.Spec.Ports {
		if p.Protocol == corev1.ProtocolTCP || p.Protocol == "" {
			out = append(out, p)
		}
	}
	return out
}

func address(host string, port int32) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
}
