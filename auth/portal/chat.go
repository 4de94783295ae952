package portal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

const (
	mostChat     = 1 << 20 // bytes of a conversation, as JSON
	mostMessages = 500
	// What the page offers; the API lists the rest.
	chatKeys       = 50
	chatModels     = 500
	chatModelBytes = 16 << 10 // of their names
	planePath      = "/v1/chat/completions"
)

type chatPage struct {
	Token  string
	Keys   []keyRow
	Models []string // of the first key
	Typed  bool     // the model's name is typed: the list is not known, or too long to choose from
}

func (p *Portal) chat(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
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
	data := chatPage{Token: token}
	now := p.deps.Now()
	for i := range list {
		if k := &list[i]; k.Usable(now) && len(data.Keys) < chatKeys {
			data.Keys = append(data.Keys, newKeyRow(k, now))
		}
	}
	if len(data.Keys) > 0 {
		if data.Models, err = p.modelsOf(r, who, data.Keys[0].ID); err != nil {
			return err
		}
	}
	offered := fewModels(data.Models)
	data.Typed = p.deps.Models == nil || len(offered) < len(data.Models)
	data.Models = offered
	return p.page(w, r, http.StatusOK, "Chat", "chat.html", data)
}

// fewModels is as much of a list as a page has room for.
func fewModels(list []string) []string {
	room := chatModelBytes
	for i, name := range list {
		if room -= len(name); room < 0 || i == chatModels {
			return list[:i]
		}
	}
	return list
}

// modelsOf lists what a key of the visitor may use.
func (p *Portal) modelsOf(r *http.Request, who *account.Visitor, keyID string) ([]string, error) {
	id, err := p.identity(r, who, keyID)
	if err != nil || p.deps.Models == nil {
		return nil, err
	}
	list := slices.Clone(p.deps.Models(id))
	slices.Sort(list)
	return list, nil
}

func (p *Portal) identity(r *http.Request, who *account.Visitor, keyID string) (*auth.Identity, error) {
	id, err := p.deps.Accounts.Identity(r.Context(), who, keyID)
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, auth.ErrNotUsable), err == nil && !id.Valid(p.deps.Now()):
		return nil, &webui.Problem{
			Status: http.StatusForbidden, Title: "This key does not work", Text: "It was revoked or has expired. Load this page again and choose another one, or make one on your profile.",
			Next: []webui.NavItem{{Label: "Your keys", Path: "/profile"}},
		}
	case err != nil:
		return nil, unavailable(err)
	}
	return id, nil
}

// chatModels answers the page's script, which asks when another key is chosen.
func (p *Portal) chatModels(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	list, err := p.modelsOf(r, who, r.URL.Query().Get("key"))
	if err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		Models []string `json:"models"`
	}{append([]string{}, fewModels(list)...)})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
	return nil
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chatRequest is what the page's script sends.
type chatRequest struct {
	Key      string        `json:"key"`
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
}

// planeRequest is what becomes of it.
type planeRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
	Stream   bool          `json:"stream"`
}

// readChat reads a conversation, of at most mostChat bytes.
func readChat(body io.Reader) (chatRequest, error) {
	var c chatRequest
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(&c)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind it")
		}
	}
	bad := func(text string) (chatRequest, error) {
		return c, &webui.Problem{Status: http.StatusBadRequest, Title: "This message cannot be sent", Text: text}
	}
	switch {
	case err != nil:
		return bad("It arrived damaged. Load the page again.")
	case c.Model == "" || len(c.Model) > 256 || !utf8.ValidString(c.Model):
		return bad("Choose a model first.")
	case len(c.Messages) == 0:
		return bad("Write something first.")
	case len(c.Messages) > mostMessages:
		return bad("The conversation has too many messages. Begin a new one.")
	}
	for _, m := range c.Messages {
		if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return bad("It arrived damaged. Load the page again.")
		}
	}
	return c, nil
}

// chatCompletions sends a conversation to the data plane in the name of one of the
// visitor's keys. The plane sees a request of this process: no header of the
// browser's, no cookie among them, goes along. When the browser goes away the
// request's context ends, and with it what the plane does.
func (p *Portal) chatCompletions(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	c, err := readChat(r.Body)
	if err != nil {
		return err
	}
	id, err := p.identity(r, who, c.Key)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(planeRequest{Model: c.Model, Messages: c.Messages, Stream: true}); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(auth.NewContext(r.Context(), id), http.MethodPost, planePath, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	// What a server says of every request that arrives.
	req.Host, req.RemoteAddr, req.RequestURI, req.TLS = r.Host, r.RemoteAddr, planePath, r.TLS
	req.Proto, req.ProtoMajor, req.ProtoMinor = r.Proto, r.ProtoMajor, r.ProtoMinor
	p.deps.Plane.ServeHTTP(&plain{ResponseWriter: w}, req)
	return nil
}

// plain lets the plane answer but set no cookie and say nothing of who may keep or
// read the answer: that is said by the guards.
type plain struct {
	http.ResponseWriter
	begun bool
}

func (w *plain) WriteHeader(status int) {
	if !w.begun {
		h := w.Header()
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				h.Del(name)
			}
		}
		h.Del("Set-Cookie")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Cookie")
	}
	w.begun = w.begun || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

func (w *plain) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *plain) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for who asks for http.Flusher itself.
func (w *plain) Flush() {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
