package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router/openai"
)

// The codes of what admission refuses.
const (
	codeUnknownBand  = "unknown_band"
	codeQueueFull    = "queue_full"
	codeQueueTimeout = "queue_timeout"
)

// unknownBand answers a request whose header names a band that there is not.
func (a *admitter) unknownBand(band string) error {
	const enough = 64
	if len(band) > enough {
		band = band[:enough] + "…"
	}
	return &openai.Error{
		Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: codeUnknownBand, NoRetry: true,
		Message: fmt.Sprintf("The header %s asks for the band %s, which there is not. Send one of %s, or leave the header out for %s.",
			a.header, strconv.QuoteToASCII(band), strings.Join(a.bands, ", "), a.defaultBand),
	}
}

// refusal is what a client gets that was not admitted. An error that is no
// *openai.Error is not its doing.
func refusal(err error) error {
	rejected, ok := errors.AsType[*admission.RejectedError](err)
	if !ok {
		return err
	}
	e := &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, RetryAfter: rejected.RetryAfter}
	switch rejected.Reason {
	case admission.ReasonQueueFull:
		e.Code = codeQueueFull
		e.Message = fmt.Sprintf("The engines are busy, and as many requests of the band %s wait as may. Wait for the time in Retry-After and send it again.",
			rejected.Band)
	case admission.ReasonExpired:
		e.Status, e.Code = http.StatusGatewayTimeout, codeQueueTimeout
		e.Message = fmt.Sprintf("The request waited %v in the band %s and the engines had no room for it. Send it again when there is less load.",
			rejected.Waited.Round(time.Second/10), rejected.Band)
	case admission.ReasonClosed:
		e.Code, e.RetryAfter = openai.CodeOverloaded, time.Second
		e.Message = "The server is shutting down. Send the request again."
	default: // cancelled: nobody is there to be told
		return err
	}
	return e
}
