package openai

// Dialect is the format of an answer. The zero Dialect is unset and read as
// DialectChat.
type Dialect uint8

const (
	// DialectChat: /v1/chat/completions, /v1/completions, and JSON answers
	// with usage of that form, such as embeddings. Streams end with [DONE].
	DialectChat Dialect = iota + 1
	// DialectResponses: /v1/responses. Streams end with response.completed,
	// response.incomplete or response.failed.
	DialectResponses
	// DialectMessages: Anthropic's /v1/messages. Streams end with
	// message_stop.
	DialectMessages
	// DialectMedia: speech, transcriptions and images. Streams have typed
	// events, as transcript.text.delta, and end with transcript.text.done,
	// speech.audio.done, image_generation.completed or image_edit.completed; or
	// they are of the form of DialectChat, as vLLM's are.
	DialectMedia
)

func (d Dialect) String() string {
	switch d {
	case DialectResponses:
		return "responses"
	case DialectMessages:
		return "messages"
	case DialectMedia:
		return "media"
	}
	return "chat"
}

// eventKind is what an event means for the relay.
type eventKind uint8

const (
	kindOther    eventKind = iota
	kindUsage              // carries usage
	kindContent            // may be the first content
	kindTerminal           // the stream is complete
	kindFailed             // the stream is complete, with an error of the model's
	kindError              // an error event
)

// kindOf classifies an event with a type.
func (d Dialect) kindOf(name []byte) eventKind {
	switch string(name) {
	case "transcript.text.done", "speech.audio.done", "image_generation.completed", "image_edit.completed":
		return kindTerminal
	case "error":
		return kindError
	case "response.completed", "response.incomplete", "message_stop":
		return kindTerminal
	case "response.failed":
		return kindFailed
	case "message_start", "message_delta":
		return kindUsage
	case "content_block_delta", "content_block_start":
		return kindContent
	}
	if d == DialectMedia && len(name) > 0 {
		return kindContent // all that is sent there is output
	}
	if d != DialectResponses || len(name) < len("response.x.delta") {
		return kindOther
	}
	switch {
	case hasSuffix(name, ".delta"):
		return kindContent
	case hasSuffix(name, "output_item.done"), hasSuffix(name, "output_text.done"):
		return kindContent // of engines that send no deltas
	}
	return kindOther
}

func hasSuffix(b []byte, suffix string) bool {
	return len(b) >= len(suffix) && string(b[len(b)-len(suffix):]) == suffix
}
