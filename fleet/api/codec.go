package api

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonCodec is connect's JSON with the names of the .proto files, as all JSON of
// llmgw has, and with zeros: of a reading, "not there" means that it is not known.
type jsonCodec struct {
	// strict refuses a field that there is not. For requests: a misspelt one, or
	// one of a newer client, must not be answered as if it were not there.
	strict bool
}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

var errNotProto = errors.New("api: not a message of the protocol")

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%w: %T", errNotProto, v)
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (c jsonCodec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%w: %T", errNotProto, v)
	}
	if len(data) == 0 {
		return errors.New("the message is empty; want a JSON object, {} for one without fields")
	}
	return protojson.UnmarshalOptions{DiscardUnknown: !c.strict}.Unmarshal(data, m)
}

// MarshalJSON returns a message of the protocol as the API's JSON has it, in one
// line.
func MarshalJSON(m proto.Message) ([]byte, error) { return jsonCodec{}.Marshal(m) }
