package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// mediaTokens is what an image, audio or video part takes in the prompt.
const mediaTokens = 256

// message is one turn as the template sees it, whatever dialect it came in.
type message struct {
	Role       string            `json:"role"`
	Content    content           `json:"content"`
	Name       string            `json:"name"`
	ToolCalls  []json.RawMessage `json:"tool_calls"`
	ToolCallID string            `json:"tool_call_id"`
}

// content is a message's content: a string, or parts. Parts of text are
// joined by newlines, so that one text part equals the same string.
type content []contentPart

type contentPart struct {
	text  string
	media string // identity of an image, audio or video; "" for text
}

var (
	errContent   = errors.New("content must be a string or a list of parts, each with a type")
	errMaxTokens = errors.New("max_tokens: Field required")
)

func (c *content) UnmarshalJSON(data []byte) error {
	*c = nil
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0 || bytes.Equal(data, []byte("null")):
		return nil
	case data[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*c = content{{text: s}}
		return nil
	case data[0] != '[':
		return errContent
	}
	var parts []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Refusal string          `json:"refusal"`
		Content content         `json:"content"` // Anthropic's tool_result
		Image   json.RawMessage `json:"image_url"`
		Audio   json.RawMessage `json:"input_audio"`
		AudioU  json.RawMessage `json:"audio_url"`
		Video   json.RawMessage `json:"video_url"`
		Source  json.RawMessage `json:"source"` // Anthropic's image
		Name    string          `json:"name"`
		Input   json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "":
			return errContent
		case "text", "input_text", "output_text":
			*c = append(*c, contentPart{text: p.Text})
		case "refusal":
			*c = append(*c, contentPart{text: p.Refusal})
		case "tool_result":
			*c = append(*c, p.Content...)
		case "tool_use":
			*c = append(*c, contentPart{text: "<tool_call>\n" + p.Name + " " + compactJSON(p.Input) + "\n</tool_call>"})
		default:
			var id strings.Builder
			id.WriteString(p.Type)
			for _, raw := range []json.RawMessage{p.Image, p.Audio, p.AudioU, p.Video, p.Source} {
				id.WriteString(compactJSON(raw))
			}
			*c = append(*c, contentPart{media: id.String()})
		}
	}
	return nil
}

// text joins the text parts.
func (c content) text() string {
	if len(c) == 1 {
		return c[0].text
	}
	var texts []string
	for _, p := range c {
		if p.media == "" {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}

func (c content) appendTokens(dst []uint32) []uint32 {
	text := 0
	for _, p := range c {
		if p.media == "" {
			text++
		}
	}
	if text == len(c) {
		return Tokenize(dst, c.text())
	}
	for i, p := range c {
		if p.media != "" {
			dst = appendMedia(dst, p.media)
			continue
		}
		if i > 0 {
			dst = Tokenize(dst, "\n")
		}
		dst = Tokenize(dst, p.text)
	}
	return dst
}

// appendMedia stands for the placeholder tokens of one image, audio or video,
// different for different content.
func appendMedia(dst []uint32, identity string) []uint32 {
	dst = append(dst, tokenVision)
	h := fnv(identity)
	for i := range mediaTokens {
		dst = append(dst, reservedIDs+uint32(mix(h, uint64(i))%(vocabularySize-reservedIDs)))
	}
	return append(dst, tokenMedia)
}

// conversation is what the chat template renders.
type conversation struct {
	messages []message
	tools    []json.RawMessage
	// open ends the prompt with the beginning of an answer.
	open bool
	// continued leaves the last message unfinished.
	continued bool
}

// tokens applies the chat template, Qwen's in outline: tools are part of the
// system turn.
func (c *conversation) tokens() []uint32 {
	dst := make([]uint32, 0, 64+32*len(c.messages))
	rest := c.messages
	var system content
	if len(rest) > 0 && (rest[0].Role == "system" || rest[0].Role == "developer") {
		system, rest = rest[0].Content, rest[1:]
	}
	if system != nil || len(c.tools) > 0 {
		dst = Tokenize(append(dst, tokenStart), "system\n")
		dst = system.appendTokens(dst)
		if len(c.tools) > 0 {
			dst = Tokenize(dst, "\n\n# Tools\n\nYou may call one or more functions.\n<tools>")
			for _, t := range c.tools {
				dst = Tokenize(Tokenize(dst, "\n"), compactJSON(t))
			}
			dst = Tokenize(dst, "\n</tools>")
		}
		dst = Tokenize(append(dst, tokenEnd), "\n")
	}
	for i, m := range rest {
		dst = Tokenize(append(dst, tokenStart), m.Role+"\n")
		if m.Name != "" || m.ToolCallID != "" {
			dst = Tokenize(dst, m.Name+m.ToolCallID+"\n")
		}
		dst = m.Content.appendTokens(dst)
		for _, call := range m.ToolCalls {
			dst = Tokenize(dst, "\n<tool_call>\n"+compactJSON(call)+"\n</tool_call>")
		}
		if c.continued && i == len(rest)-1 {
			return dst
		}
		dst = Tokenize(append(dst, tokenEnd), "\n")
	}
	if c.open {
		dst = Tokenize(append(dst, tokenStart), "assistant\n")
	}
	return dst
}

// CountChatTokens is how many prompt tokens a chat request has whose one
// message, the user's, is this text.
func CountChatTokens(text string) int {
	c := conversation{messages: []message{{Role: "user", Content: content{{text: text}}}}, open: true}
	return len(c.tokens())
}

// lastUserText is the text of the last message a user sent.
func (c *conversation) lastUserText() string {
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].Role == "user" {
			return c.messages[i].Content.text()
		}
	}
	return ""
}

// compactJSON is raw without insignificant space.
func compactJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
