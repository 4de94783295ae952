package sim

import (
	"net/http"
	"slices"
	"sync"
)

// maxStored bounds the responses that are kept; the oldest goes first. vLLM keeps
// all of them until it ends.
const maxStored = 1024

// storedResponse is a response with the conversation that it ended.
type storedResponse struct {
	messages []message
	body     []byte
}

// responseStore keeps responses, as vLLM does with its store switched on.
type responseStore struct {
	mu   sync.Mutex
	byID map[string]storedResponse // guarded by mu
	ids  []string                  // guarded by mu; oldest first
}

func (s *responseStore) put(id string, r storedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byID[id]; !ok {
		if len(s.ids) == maxStored {
			delete(s.byID, s.ids[0])
			s.ids = slices.Delete(s.ids, 0, 1)
		}
		s.ids = append(s.ids, id)
	}
	if s.byID == nil {
		s.byID = map[string]storedResponse{}
	}
	s.byID[id] = r
}

func (s *responseStore) get(id string) (storedResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byID[id]
	if !ok {
		return r, &requestError{http.StatusNotFound, "invalid_request_error", "response_id", "Response with id '" + id + "' not found."}
	}
	return r, nil
}

// showResponse serves GET /v1/responses/{id}.
func (e *Engine) showResponse(w http.ResponseWriter, r *http.Request) {
	got, err := e.stored.get(r.PathValue("id"))
	if err != nil {
		e.finish(&answer{engine: e, w: w, rc: http.NewResponseController(w), r: r, faults: &e.faults.Load().Faults}, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(got.body)
}

// cancelResponse serves POST /v1/responses/{id}/cancel. Nothing runs in the
// background, so there is never anything to cancel.
func (e *Engine) cancelResponse(a *answer, _ []byte) error {
	if _, err := e.stored.get(a.r.PathValue("id")); err != nil {
		return err
	}
	return badRequest("response_id", "Cannot cancel a synchronous response.")
}
