package telling

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// ModelTroubles are why a model has not what is wanted of it.
func ModelTroubles(m *apipb.PlacedModel, at *timestamppb.Timestamp) []string {
	var out []string
	switch {
	case m.GetProblem() != "":
		out = append(out, fmt.Sprintf("%s cannot be run: %s", m.GetName(), m.GetProblem()))
	case m.GetUnplaced() != "" && !m.GetCouldEver():
		out = append(out, fmt.Sprintf("%s has no place, not even on empty nodes: %s", m.GetName(), m.GetUnplaced()))
	case m.GetUnplaced() != "":
		out = append(out, fmt.Sprintf("%s has no place: %s", m.GetName(), m.GetUnplaced()))
	}
	out = append(out, scalingTroubles(m)...)
	if m.GetFailures() > 0 {
		text := fmt.Sprintf("%s failed %s in a row: %s", m.GetName(), Times(m.GetFailures()), cmp.Or(m.GetFailure(), "why is not known"))
		if m.GetNextTry() != nil {
			text += "; the next start is tried in " + Since(m.GetNextTry(), at)
		}
		out = append(out, text)
	}
	return out
}

// Standing is how a model stands for who asks for it, in a word.
func Standing(s *apipb.PlacedScaling) string {
	if s.GetState() == apipb.ModelStanding_MODEL_STANDING_UNSPECIFIED {
		return "-"
	}
	return strings.ToLower(strings.TrimPrefix(s.GetState().String(), "MODEL_STANDING_"))
}

// Bounds are between how many replicas a model runs now.
func Bounds(s *apipb.PlacedScaling) string {
	switch {
	case s == nil:
		return "-"
	case s.GetFloor() == s.GetMax():
		return fmt.Sprint(s.GetMax())
	}
	return fmt.Sprintf("%d-%d", s.GetFloor(), s.GetMax())
}

// Full is how full a model's replicas are.
func Full(s *apipb.PlacedScaling) string {
	if s == nil || s.Load == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*s.GetLoad())
}

// Scaling says what the number of a model's replicas is by; "": nothing to say.
func Scaling(m *apipb.PlacedModel, at *timestamppb.Timestamp) string {
	s := m.GetScaling()
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("it is %s; %d of %s wanted for %s: %s", Standing(s), m.GetWanted(), Bounds(s), Since(at, s.GetSince()), s.GetWhy())
	if s.GetPrewarm() != "" {
		text += fmt.Sprintf("; the schedule %q holds %d", s.GetPrewarm(), s.GetFloor())
	}
	if d := IdleTime(s.GetAskedSeconds()); d >= 0 {
		text += "; last asked for " + Lasting(d) + " ago"
	}
	if d := IdleTime(s.GetLoadSeconds()); d >= 0 {
		text += "; a load takes " + Lasting(d)
	}
	return text
}

// scalingTroubles are what of a model's scaling a person should look at.
func scalingTroubles(m *apipb.PlacedModel) (out []string) {
	s := m.GetScaling()
	if n := s.GetThrashed(); n > 0 {
		out = append(out, fmt.Sprintf("%s was loaded again %s within 10m of making room for another model: more is asked for than the cards hold", m.GetName(), Times(n)))
	}
	idles, loads := IdleTime(s.GetIdleTimeoutSeconds()), IdleTime(s.GetLoadSeconds())
	if s.GetFloor() < s.GetMax() && loads > idles {
		out = append(out, fmt.Sprintf("%s: a load takes %s, and it is stopped after %s without use; raise scaling.idle_timeout", m.GetName(), Lasting(loads), Lasting(idles)))
	}
	return out
}
