package discover

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Name puts the parts of a name together: each is lowercased, what is not a to z,
// 0 to 9 or a dot becomes a dash, dashes in a row become one, and none stays at
// the ends. A part that is empty, or of which nothing stays, is left out. Name of
// a name is that name.
//
// So vLLM's nvidia/Qwen3.6-35B on port 8000 of host Gold01 is
// gold01-nvidia-qwen3.6-35b-8000.
func Name(parts ...string) string {
	kept := make([]string, 0, len(parts))
	for _, p := range parts {
		if p = part(p); p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "-")
}

func part(text string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(text) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' {
			dash = true
			continue
		}
		if dash && b.Len() > 0 {
			b.WriteByte('-')
		}
		dash = false
		b.WriteRune(r)
	}
	return b.String()
}

// sumDigits is how much of a sum is put to a name: 32 bits, for a few thousand
// names of which few are alike.
const sumDigits = 8

// nameAll names what was found, each differently, if the addresses differ. What
// parts alone would name alike, such as two addresses of unknown nodes, gets the
// beginning of its address's SHA-256 at the end: all of them, so that no name
// depends on who was found first. No name is longer than a registry takes.
func nameAll(found []Found) {
	plain := make([]string, len(found))
	for i := range found {
		c := found[i].Candidate
		plain[i] = Name(append(slices.Clone(c.Prefix), found[i].Model, c.port())...)
		found[i].Name = plain[i]
		if len(plain[i]) > maxName {
			found[i].Name = withSum(plain[i], c.BaseURL, 1)
		}
	}
	// An engine may call its model what the name of another is with its sum. So it
	// is gone on until all differ; each round takes one such engine to go on.
	for round := 1; round <= len(found)+1; round++ {
		count := make(map[string]int, len(found))
		for i := range found {
			count[found[i].Name]++
		}
		if len(count) == len(found) {
			return
		}
		for i := range found {
			if count[found[i].Name] > 1 {
				found[i].Name = withSum(plain[i], found[i].BaseURL, round)
			}
		}
	}
}

func withSum(name, url string, round int) string {
	if round > 1 {
		url += " " + strconv.Itoa(round)
	}
	sum := sha256.Sum256([]byte(url))
	if most := maxName - 1 - sumDigits; len(name) > most {
		name = name[:most]
	}
	return Name(name, hex.EncodeToString(sum[:])[:sumDigits])
}
