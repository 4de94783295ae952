package kube

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hostPort is a port of a pod on its node.
type hostPort struct {
	ip     string // the one address it is bound to; "" for any
	port   int32  // on the node
	inside int32  // in the pod
}

// hostPorts returns the ports that p has on its node, each once.
func hostPorts(p *corev1.Pod) []hostPort {
	var out []hostPort
	for _, c := range containers(p) {
		if p.Spec.HostNetwork {
			for _, port := range hostNetworkPorts(&c) {
				out = append(out, hostPort{port: port, inside: port})
			}
			continue
		}
		for _, d := range c.Ports {
			if tcp(d.Protocol) && d.HostPort != 0 {
				out = append(out, hostPort{ip: d.HostIP, port: d.HostPort, inside: d.ContainerPort})
			}
		}
	}
	seen := make(map[hostPort]bool, len(out))
	return slices.DeleteFunc(out, func(h hostPort) bool {
		again := seen[h]
		seen[h] = true
		return again
	})
}

// hostNetworkPorts returns where a container on its node's network listens, by
// the first of these that says so: hostPort, containerPort, --port in its command
// and arguments, the number of a probe's httpGet port.
func hostNetworkPorts(c *corev1.Container) []int32 {
	var host, inside []int32
	for _, d := range c.Ports {
		if !tcp(d.Protocol) {
			continue
		}
		if d.HostPort != 0 {
			host = append(host, d.HostPort)
		}
		if d.ContainerPort != 0 {
			inside = append(inside, d.ContainerPort)
		}
	}
	switch {
	case len(host) > 0:
		return host
	case len(inside) > 0:
		return inside
	}
	if port, ok := portFlag(slices.Concat(c.Command, c.Args)); ok {
		return []int32{port}
	}
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		// One that is named stands for a port that is declared, and there is none.
		if probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port.Type == intstr.Int && valid(int(probe.HTTPGet.Port.IntVal)) {
			return []int32{probe.HTTPGet.Port.IntVal}
		}
	}
	return nil
}

// portFlag reads --port N and --port=N, also of a line for a shell; of several
// the last counts, as it does for engines.
func portFlag(args []string) (int32, bool) {
	var words []string
	for _, a := range args {
		words = append(words, strings.Fields(a)...)
	}
	var found int32
	for i, w := range words {
		value, ok := strings.CutPrefix(w, "--port=")
		if !ok && w == "--port" && i+1 < len(words) {
			value, ok = words[i+1], true
		}
		if !ok {
			continue
		}
		// A line for a shell quotes, and puts a semicolon after it.
		n, err := strconv.Atoi(strings.TrimRight(strings.Trim(value, `"'`), `;"'`))
		if err == nil && valid(n) {
			found = int32(n) //nolint:gosec // 1 to 65535
		}
	}
	return found, found != 0
}

// targetPort is the port of pod behind a port of a Service.
func targetPort(pod *corev1.Pod, p corev1.ServicePort) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return p.Port, true
		}
		return p.TargetPort.IntVal, true
	}
	for _, c := range containers(pod) {
		for _, d := range c.Ports {
			if d.Name == p.TargetPort.StrVal && tcp(d.Protocol) {
				return d.ContainerPort, true
			}
		}
	}
	return 0, false
}

// containers are those that run as long as the pod does.
func containers(p *corev1.Pod) []corev1.Container {
	out := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

func tcp(p corev1.Protocol) bool { return p == corev1.ProtocolTCP || p == "" }

func valid(port int) bool { return port > 0 && port <= 65535 }
