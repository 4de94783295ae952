package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ErrAddress is of every text that is no address of an engine.
var ErrAddress = errors.New("discover: no address of an engine")

// Candidate is where an engine might answer.
type Candidate struct {
	// BaseURL is the address without /v1, as [BaseURL] spells it.
	BaseURL string
	// Node is the machine, as it names itself; "" when that is not known.
	Node string
	// Prefix are the parts of a name before the model: of a host itself, of what runs
	// in a cluster the cluster and the node. What is not known is "".
	Prefix []string
	// Backend says what stands behind the address, for whoever lists it: of several
	// candidates with the same one, the first that answers is taken. "" when that is
	// not known.
	Backend string
	// Origin is where the candidate comes from, for people, e.g. "service ai/vllm".
	Origin string
}

// port is the candidate's port, which http and https have without saying so.
func (c Candidate) port() string {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		return ""
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Listing is what a source knows at one time.
type Listing struct {
	// Candidates come in order of preference.
	Candidates []Candidate
	// Never are networks of which no address may be registered, whichever source
	// names it.
	Never []netip.Prefix
}

// Source lists candidates. It is asked by one goroutine at a time, blocks until
// ctx is done at the most, and gives the listing away. An error means that it is
// not known what there is; the candidates of before are looked at again.
type Source interface {
	List(ctx context.Context) (Listing, error)
}

// PortScan is a [Source] of the ports of one host. Its zero value lists nothing.
type PortScan struct {
	// Host is the address or the name by which routers reach the host.
	Host string
	// Name is how the host calls itself.
	Name string
	// Ports are as of [ParsePorts].
	Ports []int
}

// Validate says what is wrong with p, wrapping [ErrAddress].
func (p PortScan) Validate() error {
	if len(p.Ports) == 0 {
		return nil
	}
	if p.Host == "" {
		return fmt.Errorf("%w: advertise is empty; want the address by which routers reach this host", ErrAddress)
	}
	if _, err := BaseURL("http://" + net.JoinHostPort(p.Host, "8000")); err != nil {
		return fmt.Errorf("advertise: %.80q: %w; want an address or a name, without a port", p.Host, err)
	}
	return nil
}

// List returns a candidate for each port, never an error.
func (p PortScan) List(context.Context) (Listing, error) {
	var out Listing
	for _, port := range p.Ports {
		out.Candidates = append(out.Candidates, Candidate{
			BaseURL: "http://" + strings.ToLower(net.JoinHostPort(p.Host, strconv.Itoa(port))),
			Node:    p.Name,
			Prefix:  []string{p.Name},
			Origin:  "port scan",
		})
	}
	return out, nil
}

// BaseURL spells the address of an engine in the one way in which two are
// compared: scheme and host in lower case, no port that the scheme has anyhow,
// no dot after the host, no slash and no /v1 at the end. Errors wrap [ErrAddress]: a scheme other than
// http and https, no host, a user, a query or a fragment.
func BaseURL(text string) (string, error) {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrAddress, what) }
	if len(text) > 512 {
		return "", bad("longer than 512 bytes")
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error of package url repeats the text, which may hold a password.
		return "", bad("no URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", bad("neither http:// nor https://")
	case u.User != nil:
		return "", bad("holds a user")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawFragment != "":
		return "", bad("has a query or a fragment")
	case !hostOK(u.Hostname()):
		return "", bad("has no host")
	}
	port := u.Port()
	if port == "" && strings.HasSuffix(u.Host, ":") {
		return "", bad("ends in a colon without a port")
	}
	if port != "" {
		n, err := parsePort(port)
		if err != nil {
			return "", bad(err.Error())
		}
		port = strconv.Itoa(n)
	}
	if (u.Scheme == "http" && port == "80") || (u.Scheme == "https" && port == "443") {
		port = ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for strings.HasSuffix(path, "/v1") {
		path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", bad("has dots for a path")
		}
	}
	return u.Scheme + "://" + host + path, nil
}

// hostOK reports whether text is an address without a zone, or could be a name.
func hostOK(text string) bool {
	if strings.Contains(text, ":") {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Zone() == ""
	}
	if text = strings.TrimSuffix(text, "."); text == "" || len(text) > 253 || strings.HasPrefix(text, ".") || strings.Contains(text, "..") {
		return false
	}
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_' {
			return false
		}
	}
	return true
}
