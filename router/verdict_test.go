package router

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

func TestJudgeStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		status     int
		retryAfter string
		secret     bool
		want       verdict
	}{
		{400, "", false, verdict{blame: blameNone}},
		{401, "", false, verdict{blame: blameNone}},
		{404, "", true, verdict{blame: blameNone}},
		{413, "9", false, verdict{blame: blameNone}},
		{422, "", false, verdict{blame: blameNone}},
		{401, "", true, verdict{blameCool, 0, true}},
		{403, "", true, verdict{blameCool, 0, true}},
		{429, "", false, verdict{blameCool, 0, true}},
		{429, "30", false, verdict{blameCool, 30 * time.Second, true}},
		{503, "", false, verdict{blameFail, 0, true}},
		{503, "30", false, verdict{blameCool, 30 * time.Second, true}},
		{500, "30", false, verdict{blameFail, 0, true}},
		{501, "", false, verdict{blameNone, 0, true}},
		{529, "", false, verdict{blameFail, 0, true}},
		{302, "", false, verdict{blameFail, 0, true}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.retryAfter, tt.secret), func(t *testing.T) {
			if got := judgeStatus(tt.status, tt.retryAfter, tt.secret, now); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-1": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "soon": 0, "NaN": 0, "Inf": 0, "1e300": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		now.Add(-time.Hour).Format(http.TimeFormat):  0,
	} {
		if got := parseRetryAfter(text, now); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// Whoever left is to blame for nothing, and there is nobody to ask another
// engine for; after the last deadline there is no time to.
func TestJudgeError(t *testing.T) {
	for k := proxy.KindDial; k <= proxy.KindBody; k++ {
		want := verdict{blameFail, 0, true}
		switch k {
		case proxy.KindCanceled, proxy.KindClient:
			want = verdict{}
		case proxy.KindTotalTimeout:
			want = verdict{blame: blameFail}
		case proxy.KindBody:
			want = verdict{retry: true}
		}
		if got := judgeError(k); got != want {
			t.Errorf("%v: got %+v, want %+v", k, got, want)
		}
		if e := exchangeError(k); (e.Status == 504) != k.Timeout() || e.Status != 504 && e.Status != 502 && (e.Status != 503 || k != proxy.KindBody) {
			t.Errorf("%v: the client gets %d", k, e.Status)
		}
	}
}
