package sim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
)

// embeddings serves POST /v1/embeddings: equal input gives an equal vector of
// length 1.
func (e *Engine) embeddings(a *answer, body []byte) error {
	var req struct {
		named
		Input      prompts   `json:"input"`
		Messages   []message `json:"messages"`
		Format     string    `json:"encoding_format"`
		Dimensions int       `json:"dimensions"`
	}
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	inputs := req.Input.tokens
	if len(req.Messages) > 0 {
		inputs = [][]uint32{(&conversation{messages: req.Messages}).tokens()}
	}
	if len(inputs) == 0 {
		return badRequest("input", "input: at least one text or token list is required")
	}
	if req.Format != "" && req.Format != "float" && req.Format != "base64" {
		return badRequest("encoding_format", "encoding_format: Input should be 'float' or 'base64', got %q", req.Format)
	}
	dims := e.cfg.EmbeddingDimensions
	if req.Dimensions != 0 {
		if req.Dimensions < 1 || req.Dimensions > dims {
			return badRequest("dimensions", "dimensions must be between 1 and %d, got %d.", dims, req.Dimensions)
		}
		dims = req.Dimensions
	}
	total, err := e.prefill(a, inputs)
	if err != nil {
		return err
	}
	data := make([]object, len(inputs))
	for i, tokens := range inputs {
		var value any
		vector := embed(tokens, dims)
		if value = vector; req.Format == "base64" {
			raw := make([]byte, 0, 4*dims)
			for _, v := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			value = base64.StdEncoding.EncodeToString(raw)
		}
		data[i] = object{"index": i, "object": "embedding", "embedding": value}
	}
	return a.json(200, encode(object{
		"id": e.id(a, "embd-"), "object": "list", "created": unixNow(), "model": e.cfg.Model, "data": data,
		"usage": object{"prompt_tokens": total, "total_tokens": total, "completion_tokens": 0, "prompt_tokens_details": nil},
	}))
}

// named is a request of which only the model is checked in common.
type named struct {
	Model string `json:"model"`
}

func (n *named) model() string { return n.Model }

// prefill runs inputs through the batch without generating and returns their
// tokens in total.
func (e *Engine) prefill(a *answer, inputs [][]uint32) (int, error) {
	if len(inputs) > maxChoices {
		return 0, badRequest("input", "at most %d inputs are accepted, got %d.", maxChoices, len(inputs))
	}
	g := &generation{engine: e, perPrompt: 1, wake: make(chan struct{}, 1)}
	total := 0
	for i, tokens := range inputs {
		if len(tokens) == 0 {
			return 0, badRequest("input", "input[%d] is empty", i)
		}
		if len(tokens) > e.cfg.MaxModelLen {
			return 0, tooLong(e.cfg.MaxModelLen, len(tokens), 0)
		}
		total += len(tokens)
		c := &choice{gen: g, index: i, finish: "stop"}
		c.request = Request{
			PromptTokens: len(tokens), Owner: c,
			Blocks: BlockHashes(fnv(""), tokens, e.cfg.BlockSize), Tokens: tokens, // as a completion without salt
		}
		g.choices = append(g.choices, c)
	}
	g.unfinished.Store(int64(len(g.choices)))
	if err := e.submit(g); err != nil {
		return 0, err
	}
	defer e.abort(g)
	for g.unfinished.Load() > 0 {
		if err := g.wait(a.r.Context()); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// embed hashes every token into the vector, so that texts which share words
// are near each other, and scales it to length 1.
func embed(tokens []uint32, dims int) []float32 {
	sums := make([]float64, dims)
	for _, t := range tokens {
		h := mix(uint64(t), 0x2545f4914f6cdd1d)
		for range 4 {
			sums[int(h>>8)%dims] += 1 - 2*float64(h&1)
			h = mix(h, 1)
		}
	}
	norm := 0.0
	for _, v := range sums {
		norm += v * v
	}
	if norm == 0 {
		sums[0], norm = 1, 1
	}
	out := make([]float32, dims)
	for i, v := range sums {
		out[i] = float32(v / math.Sqrt(norm))
	}
	return out
}

// similarity is the cosine of two texts' vectors moved into [0,1].
func similarity(a, b []float32) float64 {
	dot := 0.0
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
	}
	return (1 + dot) / 2
}

// texts is a string, an object with text or with parts of content, or a list of
// these.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	*t = nil
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		list = []json.RawMessage{data}
	}
	for _, raw := range list {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			var o struct {
				Text    string `json:"text"`
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				return err
			}
			s = o.Text
			for _, part := range o.Content {
				s += part.Text
			}
		}
		*t = append(*t, s)
	}
	return nil
}

// pairs scores text pairs (a[i], b[i]) as a cross-encoder does, and returns their
// tokens in total: each pair is a prompt, with a token at its begin and one behind
// either text.
func (e *Engine) pairs(a *answer, left, right []string) (scores []float64, total int, err error) {
	inputs := make([][]uint32, len(left))
	for i := range left {
		l, r := Tokenize(nil, left[i]), Tokenize(nil, right[i])
		scores = append(scores, similarity(embed(l, 256), embed(r, 256)))
		inputs[i] = slices.Concat([]uint32{tokenStart}, l, []uint32{tokenEnd}, r, []uint32{tokenEnd})
	}
	total, err = e.prefill(a, inputs)
	return scores, total, err
}

// rerank serves POST /rerank, /v1/rerank and /v2/rerank.
func (e *Engine) rerank(a *answer, body []byte) error {
	var req struct {
		named
		Query     texts `json:"query"`
		Documents texts `json:"documents"`
		TopN      int   `json:"top_n"`
	}
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	if len(req.Query) == 0 || len(req.Documents) == 0 {
		return badRequest("documents", "query and at least one document are required")
	}
	scores, total, err := e.pairs(a, slices.Repeat(req.Query[:1], len(req.Documents)), req.Documents)
	if err != nil {
		return err
	}
	results := make([]object, len(scores))
	for i, s := range scores {
		results[i] = object{"index": i, "document": object{"text": req.Documents[i], "multi_modal": nil}, "relevance_score": s}
	}
	slices.SortStableFunc(results, func(x, y object) int {
		switch sx, sy := x["relevance_score"].(float64), y["relevance_score"].(float64); {
		case sx > sy:
			return -1
		case sx < sy:
			return 1
		default:
			return 0
		}
	})
	if req.TopN > 0 && req.TopN < len(results) {
		results = results[:req.TopN]
	}
	return a.json(200, encode(object{"id": e.id(a, "rerank-"), "model": e.cfg.Model,
		"usage": object{"prompt_tokens": total, "total_tokens": total}, "results": results}))
}

// score serves POST /score and /v1/score, in all spellings of the pair.
func (e *Engine) score(a *answer, body []byte) error {
	var req struct {
		named
		Text1     texts `json:"text_1"`
		Text2     texts `json:"text_2"`
		Data1     texts `json:"data_1"`
		Data2     texts `json:"data_2"`
		Queries   texts `json:"queries"`
		Documents texts `json:"documents"`
		Items     texts `json:"items"`
	}
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	left, right := slices.Concat(req.Text1, req.Data1, req.Queries), slices.Concat(req.Text2, req.Data2, req.Documents, req.Items)
	if len(left) == 0 || len(right) == 0 || (len(left) != 1 && len(left) != len(right)) {
		return badRequest("text_1", "text_1 must be one text or as many as text_2, got %d and %d.", len(left), len(right))
	}
	if len(left) == 1 {
		left = slices.Repeat(left, len(right))
	}
	scores, total, err := e.pairs(a, left, right)
	if err != nil {
		return err
	}
	data := make([]object, len(scores))
	for i, s := range scores {
		data[i] = object{"index": i, "object": "score", "score": s}
	}
	return a.json(200, encode(object{"id": e.id(a, "score-"), "object": "list", "created": unixNow(), "model": e.cfg.Model,
		"data": data, "usage": object{"prompt_tokens": total, "total_tokens": total, "completion_tokens": 0,
			"prompt_tokens_details": nil}}))
}
