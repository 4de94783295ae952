package provider

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ErrAddress: a provider cannot be at that address: it is no address, or one that must
// not be asked. The text says which and what would be accepted.
var ErrAddress = errors.New("provider: address")

const maxBaseURL = 512 // bytes, as the store keeps

// ParseBaseURL returns the one spelling of a base URL: what stands before /models and
// /chat/completions. Scheme and host are in lower case, the scheme's own port and a
// slash at the end are left out, and an address without a path gets /v1, so that
// HTTP://Gpu07:8000/ and http://gpu07:8000/v1 are one provider. What has a user, a
// query, a fragment or another scheme than http and https is ErrAddress; the error does
// not repeat what may be a password.
func ParseBaseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: it is no URL; want http://HOST:PORT or https://HOST", ErrAddress)
	case u.User != nil:
		return "", fmt.Errorf("%w: it has a user or password; set the provider's credential instead", ErrAddress)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		return "", fmt.Errorf("%w: it has a query or fragment; want http://HOST:PORT/PATH alone", ErrAddress)
	}
	scheme := strings.ToLower(u.Scheme)
	if scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("%w: scheme %q; want http or https", ErrAddress, u.Scheme)
	}
	host, err := parseHost(u.Hostname())
	if err != nil {
		return "", err
	}
	port, err := parsePort(scheme, u.Port())
	if err != nil || strings.HasSuffix(u.Host, ":") {
		return "", fmt.Errorf("%w: port %q; want 1 to 65535", ErrAddress, u.Port())
	}
	if port != "" {
		host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	p := u.EscapedPath()
	if strings.Contains(p, "%") || strings.ContainsAny(p, "\\ ") {
		return "", fmt.Errorf("%w: its path has escapes; want a plain one, as /v1", ErrAddress)
	}
	if p = strings.TrimSuffix(path.Clean("/"+p), "/"); p == "" {
		p = "/v1"
	}
	out := scheme + "://" + host + p
	if len(out) > maxBaseURL {
		return "", fmt.Errorf("%w: it has %d bytes; want %d at most", ErrAddress, len(out), maxBaseURL)
	}
	return out, nil
}

// parseHost is a name or an IP address in its one spelling.
func parseHost(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" {
		return "", fmt.Errorf("%w: it has no host", ErrAddress)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", fmt.Errorf("%w: host %q has a zone, which means something on one machine alone", ErrAddress, host)
		}
		return ip.Unmap().String(), nil
	}
	if len(host) > 253 || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.Contains(host, "..") || host[0] == '.' {
		return "", fmt.Errorf("%w: host %q is neither a name nor an IP address", ErrAddress, host)
	}
	// 127.1, 2130706433 and 0x7f.1 are addresses to some resolvers.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if digits := strings.TrimPrefix(last, "0x"); digits != last || strings.Trim(last, "0123456789") == "" {
		return "", fmt.Errorf("%w: host %q is an IP address in a spelling that is not accepted; want four numbers from 0 to 255", ErrAddress, host)
	}
	return host, nil
}

// parsePort is empty for the scheme's own port.
func parsePort(scheme, port string) (string, error) {
	if port == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", ErrAddress
	}
	if scheme == "http" && n == 80 || scheme == "https" && n == 443 {
		return "", nil
	}
	return strconv.FormatUint(n, 10), nil
}

// hostOf is the host and port of a base URL that ParseBaseURL wrote.
func hostOf(baseURL string) string {
	_, rest, _ := strings.Cut(baseURL, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// Guard says which IP addresses may be dialled. The zero Guard allows none.
type Guard struct {
	allow []netip.Prefix
}

// NewGuard returns a Guard that allows addresses within the prefixes. Loopback,
// link-local addresses and Docker's own bridge are allowed only by a prefix that lies
// within them, so that 0.0.0.0/0 is no way to 127.0.0.1; multicast, unspecified and
// broadcast addresses and those of clouds' metadata by none.
func NewGuard(allow []netip.Prefix) Guard { return Guard{slices.Clone(allow)} }

//nolint:gochecknoglobals // constant tables
var (
	// named are allowed only by who names them.
	named = []struct {
		prefix netip.Prefix
		what   string
	}{
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
		{netip.MustParsePrefix("::1/128"), "loopback"},
		{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
		{netip.MustParsePrefix("fe80::/10"), "link-local"},
		{netip.MustParsePrefix("172.17.0.0/16"), "Docker's bridge"},
	}
	// metadata are where clouds hand out credentials: AWS, GCP, Azure and most others;
	// AWS over IPv6; Alibaba; Oracle; Azure's wire server.
	metadata = []netip.Addr{
		netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("169.254.170.2"),
	}
	metadataNames = []string{"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
	// special are no public addresses though they look like it (IANA's registries of
	// special-purpose addresses).
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
		netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("fec0::/10"),
	}
)

// Check returns ErrAddress, with the reason, for an IP address that must not be
// dialled. public allows the public Internet too: what operators added is there.
func (g Guard) Check(ip netip.Addr, public bool) error {
	ip = ip.Unmap().WithZone("")
	switch {
	case !ip.IsValid() || ip.IsUnspecified():
		return fmt.Errorf("%w: %v is no address of a machine", ErrAddress, ip)
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%w: %v is of many machines", ErrAddress, ip)
	case slices.Contains(metadata, ip):
		return fmt.Errorf("%w: %v is a cloud's metadata service", ErrAddress, ip)
	}
	for _, n := range named {
		if !n.prefix.Contains(ip) {
			continue
		}
		for _, p := range g.allow {
			if p.Contains(ip) && p.Bits() >= n.prefix.Bits() {
				return nil
			}
		}
		return fmt.Errorf("%w: %v is %s; providers.allow_cidrs has to name it", ErrAddress, ip, n.what)
	}
	for _, p := range g.allow {
		if p.Contains(ip) {
			return nil
		}
	}
	if public && ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	return fmt.Errorf("%w: %v is not within providers.allow_cidrs", ErrAddress, ip)
}

// CheckURL is what can be said of a base URL, as ParseBaseURL wrote it, before its host
// is resolved: an IP address that must not be dialled and the names of metadata
// services are ErrAddress. What a name resolves to is checked when it is dialled.
func (g Guard) CheckURL(baseURL string, public bool) error {
	u, err := url.Parse(baseURL)
	if err != nil {
		return fmt.Errorf("%w: it is no URL", ErrAddress)
	}
	host := u.Hostname()
	if slices.Contains(metadataNames, host) {
		return fmt.Errorf("%w: %s is a cloud's metadata service", ErrAddress, host)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.Check(ip, public)
	}
	return nil
}
