package portal

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

// A page is to have less than 100 KB, whatever people call things.
const (
	keysOnPage = 25
	mostName   = 80   // runes of a name, in lists
	mostList   = 120  // runes of a list of models, in lists
	mostTyped  = 1024 // runes of what was typed, where it is shown again
	// mostModelText bounds what is typed as a list of models, in bytes.
	mostModelText = 16 << 10
)

// keyRow is one key of the list.
type keyRow struct {
	ID, Hint, Name string
	Models         string
	Created, Ends  time.Time
	Status         webui.Status
	Usable         bool
}

// keysPage is the page of one's own keys.
type keysPage struct {
	Token, Seen string
	Note, Alert string
	Fields      []webui.Field
	Rows        []keyRow
	Usable      int // of all keys
	Most        int // keys that may be usable at once
	Full        bool
	Models      string // what the account may use
	Page, Pages int
	Total       int
}

// Newer and Older are the pages beside this one; 0 is none.
func (k keysPage) Newer() int { return k.Page - 1 }

// Older is the page after this one; 0 is none.
func (k keysPage) Older() int {
	if k.Page < k.Pages {
		return k.Page + 1
	}
	return 0
}

func (p *Portal) keys(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	return p.keysPage(w, r, v, http.StatusOK, account.KeySpec{Expires: "90d"}, "", nil, noted(v))
}

// keysPage shows the list, and the form with what was typed and what is wrong with it.
func (p *Portal) keysPage(w http.ResponseWriter, r *http.Request, v webui.Visit, status int, typed account.KeySpec, alert string, faults map[string]string, note string) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	list, err := p.deps.Accounts.Keys(r.Context(), who)
	if err != nil {
		return unavailable(err)
	}
	token, err := v.FormToken()
	if err != nil {
		return err
	}
	now := p.deps.Now()
	data := keysPage{
		Token: token, Seen: seen(list), Note: note, Alert: alert, Most: who.Account.Allowance.Keys, Total: len(list),
		Models: clip(modelText(who.Account.Allowance.Models), mostTyped), Fields: keyFields(typed, faults),
	}
	// What can be used comes first: what is over only explains old usage.
	ordered := make([]*storage.Key, 0, len(list))
	var over []*storage.Key
	for i := range list {
		if k := &list[i]; k.Usable(now) {
			ordered = append(ordered, k)
		} else {
			over = append(over, k)
		}
	}
	data.Usable = len(ordered)
	data.Full = data.Usable >= data.Most
	ordered = append(ordered, over...)
	data.Pages = max(1, (len(ordered)+keysOnPage-1)/keysOnPage)
	data.Page, _ = strconv.Atoi(r.URL.Query().Get("page")) // anything else is the first
	data.Page = min(max(data.Page, 1), data.Pages)
	begin := (data.Page - 1) * keysOnPage
	for _, k := range ordered[begin:min(begin+keysOnPage, len(ordered))] {
		data.Rows = append(data.Rows, newKeyRow(k, now))
	}
	return p.page(w, r, status, "Your keys", "keys.html", data)
}

func newKeyRow(k *storage.Key, now time.Time) keyRow {
	row := keyRow{ID: k.ID, Hint: k.Hint, Name: clip(k.Name, mostName), Models: clip(modelText(k.Models), mostList), Created: k.CreatedAt, Ends: k.ExpiresAt, Usable: k.Usable(now)}
	if row.Name == "" {
		row.Name = k.Hint
	}
	switch {
	case row.Usable:
		row.Status = webui.Status{Kind: webui.Good, Text: "in use"}
	case !k.RevokedAt.IsZero():
		row.Status = webui.Status{Kind: webui.Idle, Text: "revoked"}
	case k.Suspended:
		row.Status = webui.Status{Kind: webui.Warn, Text: "suspended"}
	default:
		row.Status = webui.Status{Kind: webui.Idle, Text: "expired"}
	}
	return row
}

// clip shortens a text to that many runes.
func clip(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// modelText writes a list of patterns, shortened.
func modelText(models []string) string {
	const most = 6
	switch {
	case models == nil:
		return "all models"
	case len(models) > most:
		return strings.Join(models[:most], ", ") + " and " + strconv.Itoa(len(models)-most) + " more"
	}
	return strings.Join(models, ", ")
}

func keyFields(typed account.KeySpec, faults map[string]string) []webui.Field {
	return focused([]webui.Field{
		{Name: "name", Label: "Name", Value: clip(typed.Name, mostTyped), Max: 256, Required: true, Help: "So that you can tell your keys apart.", Error: faults["name"]},
		{Name: "models", Label: "Models", Value: clip(strings.Join(typed.Models, ", "), mostTyped), Max: 4096, Help: "Such as a, b/*. Empty: all of them.", Error: faults["models"]},
		{
			Name: "expires", Label: "Ends", Value: typed.Expires, Help: "When it stops working.", Error: faults["expires"],
			Options: []webui.Option{{Value: "1d", Label: "in a day"}, {Value: "7d", Label: "in a week"}, {Value: "30d", Label: "in 30 days"}, {Value: "90d", Label: "in 90 days"}, {Value: "365d", Label: "in a year"}, {Value: "never", Label: "never"}},
		},
	})
}

// seen names the keys that an account has, in a text that a form carries.
func seen(keys []storage.Key) string {
	ids := make([]string, 0, len(keys))
	for i := range keys {
		ids = append(ids, keys[i].ID)
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func (p *Portal) createKey(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	done, err := p.alone(r.Context(), who.Account.ID)
	if err != nil {
		return err
	}
	defer done()
	typed := account.KeySpec{Name: strings.TrimSpace(r.PostForm.Get("name")), Models: modelList(r.PostForm.Get("models")), Expires: r.PostForm.Get("expires")}
	list, err := p.deps.Accounts.Keys(r.Context(), who)
	if err != nil {
		return unavailable(err)
	}
	if r.PostForm.Get("seen") != seen(list) {
		// A reload of the answer, a second click, or another tab: what it made is in
		// the list, and its text is nowhere any more.
		return p.keysPage(w, r, v, http.StatusConflict, typed, "No key was made now: your keys have changed since this form was opened. If you sent it twice, the key from the first time is in the list, and its text was shown once. Revoke it if you did not copy it, and make another one.", nil, "")
	}
	if typed.Name == "" {
		return p.keysPage(w, r, v, http.StatusUnprocessableEntity, typed, "", map[string]string{"name": "Give it a name by which you will know it."}, "")
	}
	issued, err := p.deps.Accounts.CreateKey(r.Context(), who, typed)
	switch {
	case errors.Is(err, account.ErrFull):
		return p.keysPage(w, r, v, http.StatusConflict, typed, "You have as many keys as you may. Revoke one that you do not use, or ask whoever runs this gateway for more.", nil, "")
	case errors.Is(err, account.ErrSuspended):
		return &webui.Problem{Status: http.StatusForbidden, Title: "Your account is suspended", Text: "No key was made. An operator has just suspended your account; ask whoever runs this gateway."}
	case errors.Is(err, account.ErrInvalid):
		faults := faultsOf(err)
		return p.keysPage(w, r, v, http.StatusUnprocessableEntity, typed, faults[""], faults, "")
	case err != nil:
		return unavailable(err)
	}
	return p.showKey(w, r, issued, "/profile", "Back to your keys")
}

// secretPage shows a key, once.
type secretPage struct {
	Secret, Name, Models string
	Ends                 time.Time
	Warnings             []string
	Address              string
	Back, BackLabel      string
}

func (p *Portal) showKey(w http.ResponseWriter, r *http.Request, issued auth.Issued, back, label string) error {
	return p.page(w, r, http.StatusOK, "Your new key", "secret.html", secretPage{
		Secret: issued.Secret.Reveal(), Name: issued.Key.Name, Models: modelText(issued.Key.Models), Ends: issued.Key.ExpiresAt,
		Warnings: issued.Warnings, Address: p.address(r), Back: back, BackLabel: label,
	})
}

// alone waits until no other request of this process makes a key of the account: two
// clicks are two requests at once, and the second is to see the key of the first.
func (p *Portal) alone(ctx context.Context, id string) (done func(), err error) {
	mine := make(chan struct{})
	for {
		p.mu.Lock()
		other, taken := p.making[id]
		if !taken {
			p.making[id] = mine // bounded by the requests that are here
		}
		p.mu.Unlock()
		if !taken {
			return func() {
				p.mu.Lock()
				delete(p.making, id)
				p.mu.Unlock()
				close(mine)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// modelList reads patterns with commas or spaces between them; nil if there is none.
func modelList(text string) []string {
	text = text[:min(len(text), mostModelText)]
	return append([]string(nil), strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' })...)
}

// faultsOf says by field what is wrong with a key; what is of no field of the form is
// under the empty name.
func faultsOf(err error) map[string]string {
	field, text := "", err.Error()
	if invalid, ok := errors.AsType[*account.InvalidError](err); ok {
		field, text = invalid.Field, invalid.Problem
	}
	faults := make(map[string]string)
	add := func(field, text string) {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		if field != "name" && field != "models" && field != "expires" {
			field = ""
		}
		if faults[field] != "" {
			text = faults[field] + " " + text
		}
		faults[field] = sentence(text)
	}
	// Several faults stand behind each other, each after the name of its field.
	begin := 0
	for _, at := range faultOf.FindAllStringSubmatchIndex(text, -1) {
		add(field, text[begin:at[0]])
		field, begin = text[at[2]:at[3]], at[1]
	}
	add(field, text[begin:])
	return faults
}

// faultOf is where what is wrong with a field begins.
var faultOf = regexp.MustCompile(`(?:^|; |\n|: )(name|models|expires)(?:\[[0-9]+\])?: `)

func (p *Portal) revokeKey(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	_, err = p.deps.Accounts.RevokeKey(r.Context(), who, r.PostForm.Get("id"))
	if errors.Is(err, storage.ErrNotFound) {
		return &webui.Problem{
			Status: http.StatusNotFound, Title: "You have no such key", Text: "Nothing was revoked. Your list of keys says which you have.",
			Next: []webui.NavItem{{Label: "Your keys", Path: "/profile"}},
		}
	}
	if err != nil {
		return unavailable(err)
	}
	return p.to(w, r, "/profile", "revoked")
}
