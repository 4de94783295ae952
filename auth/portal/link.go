package portal

import (
	"errors"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

// linkPage is the page behind a link, before it is opened. Looking at it changes
// nothing: chat programs and mail filters look at every link that they pass on.
type linkPage struct {
	Token   string
	Expires time.Time
	Fields  []webui.Field
	Alert   string
}

func (p *Portal) link(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	info, err := p.deps.Accounts.Link(r.Context(), r.PathValue("token"))
	if err == nil && info.Kind != storage.LinkKey {
		err = account.ErrNoLink
	}
	if err != nil {
		return linkProblem(err)
	}
	token, err := v.FormToken()
	if err != nil {
		return err
	}
	return p.page(w, r, http.StatusOK, "A key for you", "link.html", linkPage{Token: token, Expires: info.ExpiresAt})
}

func (p *Portal) openLink(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	issued, err := p.deps.Accounts.OpenKeyLink(r.Context(), r.PathValue("token"), auth.By{})
	if err != nil {
		return linkProblem(err)
	}
	if _, in := v.Visitor(); in {
		return p.showKey(w, r, issued, "/profile", "Your profile")
	}
	return p.showKey(w, r, issued, "/", "Start page")
}

func (p *Portal) resetForm(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	return p.resetPage(w, r, v, http.StatusOK, "", "")
}

func (p *Portal) resetPage(w http.ResponseWriter, r *http.Request, v webui.Visit, status int, fault, alert string) error {
	info, err := p.deps.Accounts.Link(r.Context(), r.PathValue("token"))
	if err == nil && info.Kind != storage.LinkReset {
		err = account.ErrNoLink
	}
	if err != nil {
		return linkProblem(err)
	}
	token, err := v.FormToken()
	if err != nil {
		return err
	}
	return p.page(w, r, status, "Set a new password", "reset.html", linkPage{
		Token: token, Expires: info.ExpiresAt, Alert: alert,
		Fields: focused([]webui.Field{passwordField("password", "New password", "new-password", passwordHelp, fault)}),
	})
}

// reset sets the password and signs nobody in: whoever has the link has to know what
// was typed here, too.
func (p *Portal) reset(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	err := p.deps.Accounts.OpenResetLink(r.Context(), r.PathValue("token"), r.PostForm.Get("password"), auth.By{})
	if invalid, ok := errors.AsType[*account.InvalidError](err); ok {
		return p.resetPage(w, r, v, http.StatusUnprocessableEntity, "The password "+sentence(invalid.Problem), "")
	}
	if errors.Is(err, account.ErrBusy) {
		w.Header().Set("Retry-After", "5")
		return p.resetPage(w, r, v, http.StatusServiceUnavailable, "", busy)
	}
	if err != nil {
		return linkProblem(err)
	}
	if _, in := v.Visitor(); in {
		// All sessions of that account have ended, and this may have been one of them.
		p.deps.Site.SignOut(w, r)
	}
	return p.to(w, r, "/login", "password-set")
}

// linkProblem explains a link that opens nothing.
func linkProblem(err error) error {
	home := []webui.NavItem{{Label: "Start page", Path: "/"}}
	switch {
	case errors.Is(err, account.ErrNoLink):
		return &webui.Problem{Status: http.StatusNotFound, Title: "There is no such link", Text: "Perhaps it was not copied whole. Copy it again, to its last character, or ask whoever gave it to you for another one.", Next: home}
	case errors.Is(err, account.ErrLinkUsed):
		return &webui.Problem{
			Status: http.StatusGone, Title: "This link does not work any more",
			Text: "It was opened before, has expired, or was taken back. If it was opened and not by you, tell whoever gave it to you: they can revoke what it made and make you another one.",
			Next: home,
		}
	case errors.Is(err, account.ErrFull):
		return &webui.Problem{Status: http.StatusConflict, Title: "There are too many keys", Text: "The link was not used. Ask whoever gave it to you.", Next: home}
	case errors.Is(err, account.ErrInvalid):
		return &webui.Problem{Status: http.StatusConflict, Title: "This key cannot be made any more", Text: "What it was to be allowed has changed since the link was made. Ask whoever gave it to you for another one.", Next: home, Err: err}
	}
	return unavailable(err)
}
