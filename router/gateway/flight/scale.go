package flight

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/placement/scale"
	"github.com/llmgw/llmgw/storage/record"
)

// scaleRecord is how many replicas of a model were wanted from then on, and all that
// was decided by. There are few of them, so that they stand as JSON.
type scaleRecord struct {
	Model string
	scale.Record
}

// Scaled writes down a decision on how many replicas of a model are wanted. One that
// changed nothing is not worth it.
func Scaled(log Appender, model string, r *scale.Record) error {
	text, err := json.Marshal(scaleRecord{model, *r})
	if err != nil {
		return fmt.Errorf("flight: a decision of scaling: %w", err)
	}
	return log.Append(TypeScale, r.Input.Now, append([]byte{version}, text...))
}

// scale makes one decision on how many replicas are wanted again.
func (p *replayer) scale(e record.Entry) error {
	if len(e.Payload) == 0 || e.Payload[0] != version {
		return ErrVersion
	}
	var rec scaleRecord
	if err := json.Unmarshal(e.Payload[1:], &rec); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	if p.opts.Model != "" && rec.Model != p.opts.Model {
		return nil
	}
	c := &p.report.Scaling
	c.Recorded++
	recorded, err := json.Marshal(rec.Decision)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	again := rec.Replay()
	replayed, err := json.Marshal(again)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	c.compare(recorded, replayed, func() *Difference {
		return &Difference{At: e.Time.Round(time.Nanosecond), What: fmt.Sprintf("%d replicas of %s were wanted (%s); replayed it is %d (%s)",
			rec.Decision.Want, rec.Model, rec.Decision.Why, again.Want, again.Why)}
	})
	return nil
}
