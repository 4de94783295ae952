package portal

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/webui"
)

// What a password has to be: see account.Service.SignUp.
const (
	leastPassword = 15
	mostPassword  = 1024
)

const passwordHelp = "At least 15 characters. Several words in a row are easy to remember and hard to guess. There is no other rule."

// form is what pages of one form are made of.
type form struct {
	Token   string
	Fields  []webui.Field
	Next    string
	Alert   string // what went wrong
	Note    string // what was done before
	Contact contact
	SignUp  bool
	Action  string
}

// focused puts the cursor into the first field with a fault; without one it leaves it
// where it is.
func focused(fields []webui.Field) []webui.Field {
	for i := range fields {
		if fields[i].Error != "" {
			fields[i].Focus = true
			break
		}
	}
	return fields
}

func passwordField(name, label, autocomplete, help, fault string) webui.Field {
	f := webui.Field{Name: name, Label: label, Type: "password", Autocomplete: autocomplete, Required: true, Help: help, Error: fault}
	if autocomplete == "new-password" {
		f.Min, f.Max = leastPassword, mostPassword
	}
	return f
}

func addressField(value, fault string) webui.Field {
	return webui.Field{Name: "address", Label: "E-mail address", Type: "email", Value: clip(value, mostTyped), Autocomplete: "username", Required: true, Max: 254, Error: fault}
}

func (p *Portal) signUpForm(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	if _, in := v.Visitor(); in {
		return p.to(w, r, "/profile", "")
	}
	return p.signUpPage(w, r, v, http.StatusOK, "", "", "", "")
}

func (p *Portal) signUpPage(w http.ResponseWriter, r *http.Request, v webui.Visit, status int, address, addressFault, passwordFault, alert string) error {
	if !p.deps.SignUp {
		return p.page(w, r, http.StatusOK, "Sign up", "closed.html", p.contact)
	}
	token, err := v.FormToken()
	if err != nil {
		return err
	}
	field := addressField(address, addressFault)
	field.Help = "You sign in with it, and an operator knows you by it. Nothing is sent to it."
	return p.page(w, r, status, "Sign up", "signup.html", form{
		Token: token, Alert: alert,
		Fields: focused([]webui.Field{field, passwordField("password", "Password", "new-password", passwordHelp, passwordFault)}),
	})
}

// signUp answers the same whether the address is known or not.
func (p *Portal) signUp(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	address, password := r.PostForm.Get("address"), r.PostForm.Get("password")
	err := p.deps.Accounts.SignUp(r.Context(), address, password, auth.By{})
	if err == nil {
		return p.page(w, r, http.StatusOK, "Thank you", "signedup.html", p.contact)
	}
	switch {
	case errors.Is(err, account.ErrInvalid):
		faults := typedFaults(err)
		return p.signUpPage(w, r, v, http.StatusUnprocessableEntity, address, faults["address"], faults["password"], "")
	case errors.Is(err, account.ErrClosed):
		return &webui.Problem{Status: http.StatusForbidden, Title: "Signing up is closed", Text: "Ask whoever runs this gateway for access."}
	case errors.Is(err, account.ErrFull):
		return p.signUpPage(w, r, v, http.StatusServiceUnavailable, address, "", "", "Too many people wait to be approved, so nobody else can sign up at the moment. Try again tomorrow, or ask whoever runs this gateway.")
	case errors.Is(err, account.ErrBusy):
		w.Header().Set("Retry-After", "5")
		return p.signUpPage(w, r, v, http.StatusServiceUnavailable, address, "", "", busy)
	}
	return unavailable(err)
}

const busy = "Too many people sign in at the same moment. Wait a few seconds and send this again."

func (p *Portal) signInForm(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	next := p.known(r.URL.Query().Get("next"))
	if _, in := v.Visitor(); in {
		return p.to(w, r, next, "")
	}
	return p.signInPage(w, r, v, http.StatusOK, form{Next: next, Note: noted(v)}, "")
}

func (p *Portal) signInPage(w http.ResponseWriter, r *http.Request, v webui.Visit, status int, f form, address string) error {
	var err error
	if f.Token, err = v.FormToken(); err != nil {
		return err
	}
	f.SignUp = p.deps.SignUp
	field := addressField(address, "")
	field.Focus = true
	f.Fields = []webui.Field{field, passwordField("password", "Password", "current-password", "", "")}
	return p.page(w, r, status, "Sign in", "login.html", f)
}

// signIn answers the same to a wrong password and to an address that nobody has.
func (p *Portal) signIn(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	address := r.PostForm.Get("address")
	f := form{Next: p.known(r.PostForm.Get("next"))}
	opened, err := p.deps.Accounts.SignIn(r.Context(), account.SignIn{
		Address: address, Password: r.PostForm.Get("password"), Agent: r.UserAgent(), From: from(r),
	})
	if err == nil {
		if old, in := v.Visitor(); in {
			// The browser had a session, and forgets it with this answer. Where it
			// cannot be ended now it ends by itself.
			if who, ok := old.Value.(*account.Visitor); ok {
				_ = p.deps.Accounts.SignOut(r.Context(), who)
			}
		}
		p.deps.Site.SignIn(w, r, opened.Token)
		return p.to(w, r, f.Next, "")
	}
	if throttled, ok := errors.AsType[*account.ThrottledError](err); ok {
		w.Header().Set("Retry-After", fmt.Sprint(seconds(throttled.RetryAfter)))
		f.Alert = "There were too many attempts with this address. Try again in " + wait(throttled.RetryAfter) + "."
		return p.signInPage(w, r, v, http.StatusTooManyRequests, f, address)
	}
	switch {
	case errors.Is(err, account.ErrRefused), errors.Is(err, account.ErrInvalid):
		f.Alert = "The address or the password is not right. If you have forgotten the password, ask whoever runs this gateway for a link that sets a new one."
		return p.signInPage(w, r, v, http.StatusForbidden, f, address)
	case errors.Is(err, account.ErrPending):
		return p.page(w, r, http.StatusForbidden, "Not approved yet", "pending.html", p.contact)
	case errors.Is(err, account.ErrSuspended):
		return p.page(w, r, http.StatusForbidden, "Your account is suspended", "suspended.html", p.contact)
	case errors.Is(err, account.ErrBusy):
		w.Header().Set("Retry-After", "5")
		f.Alert = busy
		return p.signInPage(w, r, v, http.StatusServiceUnavailable, f, address)
	}
	return unavailable(err)
}

func (p *Portal) signOut(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	if err := p.deps.Accounts.SignOut(r.Context(), who); err != nil && !errors.Is(err, account.ErrNoSession) {
		// The cookie stays, so that it can be tried again: without it the session
		// would live on where nobody can end it.
		return unavailable(err)
	}
	p.deps.Site.SignOut(w, r)
	return p.to(w, r, "/login", "signed-out")
}

// typedFaults says what is wrong with each field, of an error that may be several.
func typedFaults(err error) map[string]string {
	faults := make(map[string]string)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			maps.Copy(faults, typedFaults(one))
		}
		return faults
	}
	if invalid, ok := errors.AsType[*account.InvalidError](err); ok {
		faults[invalid.Field] = "The " + invalid.Field + " " + sentence(invalid.Problem)
	}
	return faults
}

// sentence makes a sentence's end of what an error says.
func sentence(text string) string {
	text = strings.ReplaceAll(text, "; want ", ". Use ")
	return strings.TrimSuffix(text, ".") + "."
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// wait says how long, in words.
func wait(d time.Duration) string {
	n, unit := seconds(d), "second"
	if n > 90 {
		n, unit = (n+59)/60, "minute"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
