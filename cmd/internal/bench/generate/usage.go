package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// maxUsageTokens bounds a believable count of one answer. So many answers that
// their sum overflows cannot be asked for.
const maxUsageTokens = 1 << 40

// badUsage says what is wrong with the counts in the usage of an answer or
// event, which is a JSON object; "" if nothing is. A count that is missing or
// null is not wrong.
func badUsage(answer []byte) string {
	if !hasUsage(answer) {
		return ""
	}
	var doc struct {
		Usage json.RawMessage `json:"usage"`
	}
	// A key below the top is none of ours: then Usage stays empty.
	if err := json.Unmarshal(answer, &doc); err != nil || len(doc.Usage) == 0 || isNull(doc.Usage) {
		return ""
	}
	var usage map[string]json.RawMessage
	if json.Unmarshal(doc.Usage, &usage) != nil {
		return "usage is no object: " + excerpt(doc.Usage)
	}
	for _, name := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
		if wrong := badCount("usage."+name, usage[name]); wrong != "" {
			return wrong
		}
	}
	var details map[string]json.RawMessage
	if raw := usage["prompt_tokens_details"]; len(raw) > 0 && json.Unmarshal(raw, &details) != nil {
		return "usage.prompt_tokens_details is no object: " + excerpt(raw)
	}
	return badCount("usage.prompt_tokens_details.cached_tokens", details["cached_tokens"])
}

// badCount says what is wrong with a count; "" if nothing is.
func badCount(name string, raw []byte) string {
	if len(raw) == 0 || isNull(raw) {
		return ""
	}
	n, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err == nil && n >= 0 && n <= maxUsageTokens && n == math.Trunc(n) {
		return ""
	}
	return fmt.Sprintf("%s is %s; want a whole number of 0 to %d", name, excerpt(raw), maxUsageTokens)
}

// hasUsage is whether there may be a usage that is not null: engines that are
// asked for usage send a null with every event.
func hasUsage(answer []byte) bool {
	key := []byte(`"usage"`)
	for {
		i := bytes.Index(answer, key)
		if i < 0 {
			return false
		}
		answer = answer[i+len(key):]
		value, isKey := bytes.CutPrefix(bytes.TrimLeft(answer, " \t\r\n"), []byte(":"))
		if isKey && !bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("null")) {
			return true
		}
	}
}

func isNull(raw []byte) bool { return string(raw) == "null" }
