package wire

import (
	"bytes"
	"fmt"
)

// Frames returns a stream as the writes of an engine: one write a token, in
// HTTP/1.1 with one chunk an event. The first write carries the head and the
// role too, the last one everything behind the last token.
func Frames(a Answer) [][]byte {
	const head = "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/event-stream; charset=utf-8\r\n" +
		"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	var chunks [][]byte
	from := 0
	for _, to := range a.Ends {
		chunks = append(chunks, fmt.Appendf(nil, "%x\r\n%s\r\n", to-from, a.Body[from:to]))
		from = to
	}
	first := append([]byte(head), chunks[0]...)
	out := [][]byte{append(first, chunks[1]...)}
	out = append(out, chunks[2:]...)
	// What is no token (usage, [DONE], the empty chunk) goes with the last token.
	tokens := bytes.Count(a.Body, []byte(`"delta":`)) - 1
	tail := bytes.Join(out[tokens-1:], nil)
	return append(out[:tokens-1], append(tail, "0\r\n\r\n"...))
}

// Reply returns a whole HTTP/1.1 answer with a Content-Length.
func Reply(status int, contentType string, body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nServer: bench\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		status, reason(status), contentType, len(body), body)
}

func reason(status int) string {
	switch status {
	case 200:
		return "OK"
	case 400:
		return "Bad Request"
	case 404:
		return "Not Found"
	}
	return "Status"
}
