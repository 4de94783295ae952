package portal

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/llmgw/llmgw/auth/webui"
)

const mostContact = 512

// What is taken into an address that people paste into a shell.
var (
	hostShape   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$`)
	prefixShape = regexp.MustCompile(`^(/[A-Za-z0-9][A-Za-z0-9._~-]{0,63}){1,8}$`)
	mailShape   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?)+$`)
)

// landing is the page that needs nothing and knows nothing.
func (p *Portal) landing(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	_, in := v.Visitor()
	return p.page(w, r, http.StatusOK, "A gateway to language models", "landing.html", struct {
		Address           string
		Contact           contact
		SignIn, SignUp    bool
		SignedIn, HasChat bool
	}{
		p.address(r), p.contact, p.deps.Accounts != nil, p.deps.Accounts != nil && p.deps.SignUp,
		in, p.deps.Plane != nil,
	})
}

// address is where the visitor found this page, to be shown. It is what the operator
// says, or else what proxies say of the request: no decision is made by it, and what
// is no address falls back to the next that is.
func (p *Portal) address(r *http.Request) string {
	if public := p.deps.Site.PublicURL(); public != "" {
		return public
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if said := strings.ToLower(first(r.Header.Get("X-Forwarded-Proto"))); said == "http" || said == "https" {
		scheme = said
	}
	host := first(r.Header.Get("X-Forwarded-Host"))
	if !validHost(host) {
		host = r.Host
	}
	if !validHost(host) {
		host = "this-address" // not even Host is one
	}
	prefix := strings.TrimSuffix(first(r.Header.Get("X-Forwarded-Prefix")), "/")
	if !prefixShape.MatchString(prefix) {
		prefix = ""
	}
	return scheme + "://" + host + prefix
}

// first is the value that the proxy next to the visitor wrote.
func first(list string) string {
	value, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(value)
}

// validHost reports whether a text is a host, with or without a port.
func validHost(text string) bool {
	if inside, ok := strings.CutPrefix(text, "["); ok {
		inside, port, ok := strings.Cut(inside, "]")
		ip, err := netip.ParseAddr(inside)
		return ok && err == nil && ip.Is6() && ip.Zone() == "" && (port == "" || hostShape.MatchString("h"+port))
	}
	return hostShape.MatchString(text)
}

// contact is whom to ask. Exactly one of Mail, Link and Text is set, or none.
type contact struct {
	Mail string // an e-mail address
	Link string // an http or https URL
	Text string // anything else
}

// readContact says what a contact is. Nothing becomes a link that is not an e-mail
// address or an http or https URL with a host.
func readContact(text string) contact {
	text = strings.TrimSpace(text)
	if mailShape.MatchString(text) {
		return contact{Mail: text}
	}
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Opaque == "" && u.User == nil && validHost(u.Host) && !strings.ContainsFunc(text, unlinked) {
		return contact{Link: u.String()}
	}
	return contact{Text: text}
}

// unlinked are characters that no URL of an honest contact has.
func unlinked(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"'<>\\^`{|}", c) }
