package control

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// message is what a stream receives: a message of the protocol, or a heartbeat that
// was read without making one. A stream has one, which is read anew each time.
type message struct {
	fleetpb.ConnectRequest

	heartbeats convert.HeartbeatReader
	beat       *convert.Heartbeat // nil: it is of another kind, or the generated code has read it
}

// clear forgets the last message: connect does not touch what an empty one is
// received into.
func (m *message) clear() {
	m.Reset()
	m.beat = nil
}

// read reads the message from its bytes, which it does not keep.
func (m *message) read(data []byte) error {
	m.Reset()
	if m.beat = m.heartbeats.Read(data); m.beat != nil {
		return nil
	}
	return proto.Unmarshal(data, m)
}

// heartbeat returns what the message says if it is a heartbeat, and nil if not. It
// holds until the next message is read.
func (m *message) heartbeat() (*convert.Heartbeat, error) {
	if m.beat != nil {
		return m.beat, nil
	}
	if m.GetHeartbeat() == nil {
		return nil, nil
	}
	return convert.HeartbeatFromWire(m.GetHeartbeat())
}

// codec is connect's for protobuf, but that a [message] reads itself.
type codec struct{}

// Name implements connect.Codec.
func (codec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (c codec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend has connect marshal into memory that it has.
func (codec) MarshalAppend(to []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("control: %T is no message of the protocol", v)
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

// Unmarshal implements connect.Codec.
func (codec) Unmarshal(data []byte, v any) error {
	switch m := v.(type) {
	case *message:
		return m.read(data)
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return fmt.Errorf("control: %T is no message of the protocol", v)
}
