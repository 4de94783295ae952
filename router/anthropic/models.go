package anthropic

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// DefaultPage and MaxPage are the API's numbers of models on a page.
const (
	DefaultPage = 20
	MaxPage     = 1000
)

// Model is an entry of the list of models.
type Model struct {
	ID          string
	DisplayName string    // empty: the id
	Created     time.Time // sent as RFC 3339 in UTC; the zero time as 1970
	State       string    // whether it serves, in a word; empty: not told
}

type modelDoc struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
	State       string `json:"state,omitempty"` // not of the API; clients pass it over
}

func (m Model) doc() modelDoc {
	created := m.Created
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	name := m.DisplayName
	if name == "" {
		name = m.ID
	}
	return modelDoc{Type: "model", ID: m.ID, DisplayName: name, CreatedAt: created.UTC().Format(time.RFC3339), State: m.State}
}

// JSON is the body of GET /v1/models/{id}.
func (m Model) JSON() []byte { return marshal(m.doc()) }

// Page says which part of the list is wanted.
type Page struct {
	Limit    int    // 1 to MaxPage
	AfterID  string // the page behind this model; empty: from the start
	BeforeID string // the page in front of this model; excludes AfterID
}

// ParsePage reads the query parameters limit, after_id and before_id. The
// error is an *Error with status 400.
func ParsePage(query url.Values) (Page, error) {
	p := Page{Limit: DefaultPage, AfterID: query.Get("after_id"), BeforeID: query.Get("before_id")}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxPage {
			return Page{}, badPage(fmt.Sprintf("limit must be a number from 1 to %d.", MaxPage))
		}
		p.Limit = n
	}
	if p.AfterID != "" && p.BeforeID != "" {
		return Page{}, badPage("after_id and before_id exclude each other. Send one of them.")
	}
	return p, nil
}

func badPage(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Message: message, NoRetry: true}
}

// ModelList is the body of GET /v1/models: a page of models, which must be in
// the order the client is to see. A page next to a model that is not in the
// list is an *Error with status 400.
func ModelList(models []Model, p Page) ([]byte, error) {
	start, end := 0, len(models)
	var more bool
	switch {
	case p.BeforeID != "":
		i := index(models, p.BeforeID)
		if i < 0 {
			return nil, badPage("before_id names no model of this list. Start again without it.")
		}
		start, end = max(0, i-p.Limit), i
		more = start > 0
	case p.AfterID != "":
		i := index(models, p.AfterID)
		if i < 0 {
			return nil, badPage("after_id names no model of this list. Start again without it.")
		}
		start = i + 1
		fallthrough
	default:
		end = min(start+p.Limit, end)
		more = end < len(models)
	}
	list := struct {
		Data    []modelDoc `json:"data"`
		HasMore bool       `json:"has_more"`
		FirstID *string    `json:"first_id"`
		LastID  *string    `json:"last_id"`
	}{Data: make([]modelDoc, 0, end-start), HasMore: more}
	page := models[start:end]
	for _, m := range page {
		list.Data = append(list.Data, m.doc())
	}
	if len(page) > 0 {
		list.FirstID, list.LastID = &page[0].ID, &page[len(page)-1].ID
	}
	return marshal(list), nil
}

func index(models []Model, id string) int {
	return slices.IndexFunc(models, func(m Model) bool { return m.ID == id })
}
