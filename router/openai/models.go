package openai

import "time"

// Model is an entry of the list of models.
type Model struct {
	ID      string
	Created time.Time // the zero time is sent as 0
	OwnedBy string    // empty: "llmgw"
	State   string    // whether it serves, in a word; empty: not told
}

type modelDoc struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	State   string `json:"state,omitempty"` // not of the API; clients pass it over
}

func (m Model) doc() modelDoc {
	d := modelDoc{ID: m.ID, Object: "model", OwnedBy: m.OwnedBy, State: m.State}
	if !m.Created.IsZero() {
		d.Created = m.Created.Unix()
	}
	if d.OwnedBy == "" {
		d.OwnedBy = "llmgw"
	}
	return d
}

// JSON is the body of GET /v1/models/{id}.
func (m Model) JSON() []byte { return marshal(m.doc()) }

// ModelList is the body of GET /v1/models, in the order given. The API has no
// pages.
func ModelList(models []Model) []byte {
	list := struct {
		Object string     `json:"object"`
		Data   []modelDoc `json:"data"`
	}{"list", make([]modelDoc, 0, len(models))}
	for _, m := range models {
		list.Data = append(list.Data, m.doc())
	}
	return marshal(list)
}
