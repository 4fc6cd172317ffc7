package delivery

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// after returns an answer that asks to be left alone.
func after(status int, text string) result {
	return result{status: status, header: http.Header{"Retry-After": {text}}}
}

// TestRetries: the offsets in seconds at which requests are seen, for receivers that answer each
// attempt by the next of a list, and the last for ever.
func TestRetries(t *testing.T) {
	status := func(codes ...int) (list []result) {
		for _, code := range codes {
			list = append(list, result{status: code})
		}
		return list
	}
	for name, test := range map[string]struct {
		answers []result
		offsets []int
		ok      bool
	}{
		"500 always":                       {status(500), []int{0, 1, 3, 7, 15}, false},
		"429 always":                       {status(429), []int{0, 1, 3, 7, 15}, false},
		"502 always":                       {status(502), []int{0, 1, 3, 7, 15}, false},
		"503 always":                       {status(503), []int{0, 1, 3, 7, 15}, false},
		"refused always":                   {status(0), []int{0, 1, 3, 7, 15}, false},
		"dropped once":                     {status(0, 200), []int{0, 1}, true},
		"500 twice":                        {status(500, 500, 200), []int{0, 1, 3}, true},
		"500 four times":                   {status(500, 500, 500, 500, 204), []int{0, 1, 3, 7, 15}, true},
		"429 that says when":               {[]result{after(429, "3"), {status: 200}}, []int{0, 3}, true},
		"503 that says when":               {[]result{after(503, "3"), {status: 202}}, []int{0, 3}, true},
		"503 that says at once":            {[]result{after(503, "0"), {status: 200}}, []int{0, 1}, true},
		"429 that says a date":             {[]result{after(429, "Thu, 01 Jan 2026 12:00:09 GMT"), {status: 200}}, []int{0, 9}, true},
		"429 that says a date in the past": {[]result{after(429, "Thu, 01 Jan 2026 11:00:00 GMT"), {status: 200}}, []int{0, 1}, true},
		"429 that says too long":           {[]result{after(429, "3600"), {status: 200}}, []int{0, 30}, true},
		"429 that says nonsense":           {[]result{after(429, "-1"), {status: 200}}, []int{0, 1}, true},
		"500 that says when":               {[]result{after(500, "3"), {status: 200}}, []int{0, 1}, true},
		"501":                              {status(501), []int{0}, false},
		"302":                              {status(302), []int{0}, false},
		"400":                              {status(400), []int{0}, false},
		"401":                              {status(401), []int{0}, false},
		"403":                              {status(403), []int{0}, false},
		"404":                              {status(404), []int{0}, false},
		"408":                              {status(408), []int{0}, false},
		"not trusted":                      {[]result{{final: true}}, []int{0}, false},
		"202":                              {status(202), []int{0}, true},
	} {
		at, retries := time.Duration(0), 0
		var offsets []int
		var ok bool
		for i := 0; ; i++ {
			offsets = append(offsets, int(at/time.Second))
			r := test.answers[min(i, len(test.answers)-1)]
			if ok = r.delivered(); ok {
				break
			}
			wait, again := r.again(retries, now)
			if !again {
				break
			}
			at += wait
			retries++
		}
		if !slices.Equal(offsets, test.offsets) || ok != test.ok {
			t.Errorf("%s: %v %v, want %v %v", name, offsets, ok, test.offsets, test.ok)
		}
	}
}

// TestHeavy: failures at which fewer events may do better.
func TestHeavy(t *testing.T) {
	for status, want := range map[int]bool{0: false, 401: false, 404: false, 429: false, 500: true, 502: true, 503: true, 504: true} {
		if r := (result{status: status}); r.heavy() != want {
			t.Errorf("%d: %v", status, !want)
		}
	}
	if r := (result{broken: true}); !r.heavy() {
		t.Error("without an answer: false")
	}
}
