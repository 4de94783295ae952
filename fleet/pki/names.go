package pki

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrName is wrapped by every refusal of an id or of a host's name.
var ErrName = errors.New("pki: not a usable name")

// maxID is the longest id, as long as a label of a domain name, a label of
// Kubernetes and, less one, a host name of Linux and a common name may be.
const maxID = 63

// CheckID reports why id cannot be the id of a cluster, node, router or server,
// or nil. It is 1 to 63 characters of a-z, 0-9, "-" and ".", and as in a host's
// name each part between dots begins and ends with a letter or digit. So an id
// is at once a host name, the name of a virtual machine, a Kubernetes node name,
// a common name, a part of a URI and a file name. Capitals are refused, not
// folded: two ids that differ in case only would be one host. The error wraps
// ErrName.
func CheckID(id string) error {
	fail := func(why string) error {
		return fmt.Errorf("%w: %q %s; want at most %d of a-z, 0-9, - and ., each part between dots beginning and ending with a letter or digit, such as gpu-17", ErrName, id, why, maxID)
	}
	switch {
	case id == "":
		return fail("is empty")
	case len(id) > maxID:
		return fail(fmt.Sprintf("has %d characters", len(id)))
	}
	for _, c := range []byte(id) {
		if c >= 'A' && c <= 'Z' {
			return fail("has capitals")
		}
		if !isLower(c) && c != '-' && c != '.' {
			return fail(fmt.Sprintf("has %q", c))
		}
	}
	for part := range strings.SplitSeq(id, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return fail(fmt.Sprintf("has the part %q", part))
		}
	}
	return nil
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// Host is a name under which a server is dialled: a DNS name or an address.
type Host struct {
	Name string     // in lower case; "" if Addr is set
	Addr netip.Addr // without a zone, and never an IPv4 address within IPv6
}

// String returns the name or the address.
func (h Host) String() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Addr.String()
}

// ParseHost reads a DNS name or a bare IP address. What looks like something
// else, a URL or host:port, is refused with what would be meant, and so are
// wildcards: a certificate lists every name. The error wraps ErrName.
func ParseHost(text string) (Host, error) {
	fail := func(why string) (Host, error) { return Host{}, fmt.Errorf("%w: the host %q %s", ErrName, text, why) }
	if addr, err := netip.ParseAddr(text); err == nil {
		switch {
		case addr.Zone() != "":
			return fail("has a zone, which means nothing on another machine; leave out what follows the %")
		case addr.IsUnspecified():
			return fail("is no address that can be dialled; name those that agents dial")
		}
		return Host{Addr: addr.Unmap()}, nil
	}
	if host, ok := strings.CutPrefix(text, "["); ok {
		host, _, _ = strings.Cut(host, "]")
		return fail(fmt.Sprintf("has brackets; write %q alone", host))
	}
	if _, rest, ok := strings.Cut(text, "://"); ok {
		return fail(fmt.Sprintf("is a URL; write only the host in it, as in %q", strings.TrimRight(rest, "/")))
	}
	if host, port, ok := strings.Cut(text, ":"); ok {
		return fail(fmt.Sprintf("has a port; write %q without %q", host, ":"+port))
	}
	name := strings.TrimSuffix(strings.ToLower(text), ".")
	switch {
	case name == "":
		return fail("is empty")
	case len(name) > 253:
		return fail("is longer than 253 characters")
	case strings.Contains(name, "*"):
		return fail("has a wildcard; list each name, so that a stolen key serves no other")
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return fail(fmt.Sprintf("has the part %q; want 1 to 63 characters between dots, beginning and ending with a letter or digit", l))
		}
		for _, c := range []byte(l) {
			if !isLower(c) && c != '-' && c != '_' { // Compose has underscores in names of services
				return fail("has characters other than letters, digits, - and .; write an international name in its form that begins with xn--")
			}
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fail("ends in a number, and is no IP address")
	}
	return Host{Name: name}, nil
}

// ServiceHosts returns the names under which pods of a Kubernetes cluster with
// the given domain, most often "cluster.local", reach a Service: its name alone,
// with its namespace, with svc, and in full. The error wraps ErrName.
func ServiceHosts(namespace, service, domain string) ([]string, error) {
	full := strings.Join([]string{service, namespace, "svc", domain}, ".")
	if _, err := ParseHost(full); err != nil {
		return nil, err
	}
	if strings.Contains(service, ".") || strings.Contains(namespace, ".") {
		return nil, fmt.Errorf("%w: a Service and its namespace have no dots, as in %s/%s", ErrName, namespace, service)
	}
	short := service + "." + namespace
	return []string{service, short, short + ".svc", full}, nil
}

// parseHosts reads every host once, in the order given, and joins all faults.
func parseHosts(texts []string) ([]Host, error) {
	var hosts []Host
	var errs []error
	for _, t := range texts {
		h, err := ParseHost(t)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts, errors.Join(errs...)
}
