package control

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// A stream's message is read again and again: nothing of one is left in the next.
func TestMessageIsReadAnew(t *testing.T) {
	bytesOf := func(m *fleetpb.ConnectRequest) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	beat := bytesOf(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: typicalBeat()}})
	inParts := append(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil), beat...)
	status := bytesOf(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: &fleetpb.ShardStatus{Replica: "r1"}}})
	inJSON, err := protojson.Marshal(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: typicalBeat()}})
	if err != nil {
		t.Fatal(err)
	}
	m := new(message)
	for _, step := range []struct {
		name   string
		read   func() error
		cards  int // of a heartbeat; 0: it is none
		status bool
	}{
		{"a heartbeat", func() error { return codec{}.Unmarshal(beat, m) }, 8, false},
		{"nothing", func() error { return nil }, 0, false},
		{"a heartbeat in two parts", func() error { return codec{}.Unmarshal(inParts, m) }, 8, false},
		{"a status", func() error { return codec{}.Unmarshal(status, m) }, 0, true},
		{"a heartbeat after that", func() error { return codec{}.Unmarshal(beat, m) }, 8, false},
		{"a heartbeat in JSON", func() error { return protojson.Unmarshal(inJSON, m) }, 8, false},
		{"an empty message", func() error { return codec{}.Unmarshal(nil, m) }, 0, false},
	} {
		m.clear()
		if err := step.read(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		got, err := m.heartbeat()
		if err != nil || (got != nil) != (step.cards > 0) || got != nil && len(got.State.GPUs) != step.cards {
			t.Errorf("%s: heartbeat %+v, %v", step.name, got, err)
		}
		if (m.GetStatus() != nil) != step.status {
			t.Errorf("%s: %v", step.name, &m.ConnectRequest)
		}
	}
}

func TestCodecTakesMessagesAlone(t *testing.T) {
	if err := (codec{}).Unmarshal(nil, "text"); err == nil {
		t.Error("text is unmarshalled into")
	}
	if _, err := (codec{}).Marshal("text"); err == nil {
		t.Error("text is marshalled")
	}
}
