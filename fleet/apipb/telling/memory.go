package telling

import (
	"fmt"
	"strings"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// PlannedMemory is what is planned with on cards of a class.
func PlannedMemory(m *apipb.MemoryNeed, c *apipb.ClassMemory) string {
	switch {
	case m.StatedBytes != nil:
		return Memory(m.StatedBytes)
	case c.GetNever() != "":
		return "never"
	case c.Bytes != nil:
		return Memory(c.Bytes)
	case c.GetClass() == "" && c.CardBytes == nil && len(m.GetClasses()) == 1:
		return "-"
	}
	return "whole card"
}

// MemoryOff is how far an estimate is off what was measured.
func MemoryOff(c *apipb.ClassMemory) string {
	if c.OffRatio == nil {
		return "-"
	}
	return fmt.Sprintf("%+.0f%%", 100*c.GetOffRatio())
}

// Weights says what weights are, and where.
func Weights(s *apipb.WeightsSeen) string {
	var what strings.Builder
	what.WriteString(s.GetFormat())
	for _, word := range []string{s.GetArchitecture(), s.GetQuantization()} {
		if word != "" {
			what.WriteString(", " + word)
		}
	}
	text := fmt.Sprintf("%s, %s in %s, at %s on %s", what.String(), Memory(new(s.GetBytes())), Several(s.GetFiles(), "file"), s.GetPath(), s.GetNode())
	if n := s.GetNodes(); n > 1 {
		text += fmt.Sprintf(" and %s more", Several(n-1, "node"))
	}
	if n := s.GetOtherNodes(); n > 0 {
		text += fmt.Sprintf("; others of that name are on %s, and the largest count", Several(n, "node"))
	}
	return text
}
