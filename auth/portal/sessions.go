package portal

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/webui"
)

// sessionRow is one session of the list.
type sessionRow struct {
	ID, Agent, From   string
	Since, Used, Ends time.Time
	This              bool
}

type sessionsPage struct {
	Token       string
	Note, Alert string
	Address     string
	Rows        []sessionRow
	More        int // sessions that the list leaves out
	Fields      []webui.Field
}

// sessionsShown bounds the list.
const sessionsShown = 40

func (p *Portal) sessions(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	return p.sessionsPage(w, r, v, http.StatusOK, "", "", "", noted(v))
}

func (p *Portal) sessionsPage(w http.ResponseWriter, r *http.Request, v webui.Visit, status int, currentFault, nextFault, alert, note string) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	list, err := p.deps.Accounts.Sessions(r.Context(), who)
	if err != nil {
		return unavailable(err)
	}
	token, err := v.FormToken()
	if err != nil {
		return err
	}
	data := sessionsPage{
		Token: token, Note: note, Alert: alert, Address: who.Account.Address,
		Fields: focused([]webui.Field{
			passwordField("current", "Current password", "current-password", "", currentFault),
			passwordField("next", "New password", "new-password", passwordHelp, nextFault),
		}),
	}
	data.More = max(0, len(list)-sessionsShown)
	for _, s := range list[:len(list)-data.More] {
		data.Rows = append(data.Rows, sessionRow{ID: s.ID, Agent: browser(s.Agent), From: clip(s.From, mostName), Since: s.CreatedAt, Used: s.SeenAt, Ends: s.ExpiresAt, This: s.ID == who.Session.ID})
	}
	return p.page(w, r, status, "Sessions and password", "sessions.html", data)
}

func (p *Portal) endSession(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	id := r.PostForm.Get("id")
	err = p.deps.Accounts.EndSession(r.Context(), who, id)
	switch {
	case errors.Is(err, account.ErrNoSession):
		// It has ended, which is what was wanted.
	case err != nil:
		return unavailable(err)
	}
	if id == who.Session.ID {
		p.deps.Site.SignOut(w, r)
		return p.to(w, r, "/login", "signed-out")
	}
	return p.to(w, r, "/profile/sessions", "session-ended")
}

func (p *Portal) endOthers(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	if _, err := p.deps.Accounts.EndOthers(r.Context(), who); err != nil {
		return unavailable(err)
	}
	return p.to(w, r, "/profile/sessions", "others-ended")
}

func (p *Portal) changePassword(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	opened, err := p.deps.Accounts.ChangePassword(r.Context(), who, r.PostForm.Get("current"), r.PostForm.Get("next"))
	if err == nil && opened.Token == "" {
		// The password is changed, and no session could be opened.
		p.deps.Site.SignOut(w, r)
		return p.to(w, r, "/login", "password-set")
	}
	if err == nil {
		p.deps.Site.SignIn(w, r, opened.Token)
		return p.to(w, r, "/profile/sessions", "password-changed")
	}
	if throttled, ok := errors.AsType[*account.ThrottledError](err); ok {
		w.Header().Set("Retry-After", fmt.Sprint(seconds(throttled.RetryAfter)))
		return p.sessionsPage(w, r, v, http.StatusTooManyRequests, "", "", "There were too many attempts. Try again in "+wait(throttled.RetryAfter)+".", "")
	}
	if invalid, ok := errors.AsType[*account.InvalidError](err); ok {
		return p.sessionsPage(w, r, v, http.StatusUnprocessableEntity, "", "The new password "+sentence(invalid.Problem), "", "")
	}
	switch {
	case errors.Is(err, account.ErrRefused):
		return p.sessionsPage(w, r, v, http.StatusForbidden, "That is not your present password.", "", "", "")
	case errors.Is(err, account.ErrBusy):
		w.Header().Set("Retry-After", "5")
		return p.sessionsPage(w, r, v, http.StatusServiceUnavailable, "", "", busy, "")
	}
	return unavailable(err)
}
