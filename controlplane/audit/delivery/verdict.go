package delivery

import (
	"net/http"
	"strconv"
	"time"
)

// The limits of retries. Source: requirement "Limits".
const (
	minWait    = time.Second
	maxWait    = 30 * time.Second
	maxRetries = 4
)

// The pauses after deliveries that have failed with all their attempts.
const (
	minPause = 30 * time.Second
	maxPause = 5 * time.Minute
)

// pauseAfter is how long a receiver is left alone after a delivery has failed, and so many before it in
// a row. A receiver that wants more time gets it, up to the longest pause.
func pauseAfter(failures int, said time.Duration) time.Duration {
	return min(max(said, minPause<<min(failures, 8)), maxPause)
}

// backOff is how long to wait before something of our own is tried again that has failed so often before.
func backOff(failures int) time.Duration { return min(minWait<<min(failures, 8), maxWait) }

// result is what one attempt came to.
type result struct {
	// status is that of the answer; 0 if there was none.
	status int
	// header is that of the answer.
	header http.Header
	// failed says why there was no answer, in a sentence for people.
	failed string
	// final says that another attempt cannot change a failure, as a certificate that is not trusted.
	final bool
	// broken says that the connection stood and no answer came over it.
	broken bool
	// strained says that an attempt before it, with the same events, was heavy.
	strained bool
}

// delivered reports whether the receiver has taken the events.
func (r *result) delivered() bool { return r.status/100 == 2 }

// again says whether there is another attempt after so many retries, and how long to wait for it.
//
// It is repeated what may pass: a connection that fails, an error of the server, too many requests.
// The wait doubles; a receiver that says how long to wait is believed, within the limits, where it speaks of
// its load (RFC 9110 section 10.2.3: with 429 and 503).
func (r *result) again(retries int, now time.Time) (wait time.Duration, again bool) {
	if retries >= maxRetries || !r.passing() {
		return 0, false
	}
	if wait, said := r.asked(now); said {
		return wait, true
	}
	return min(minWait<<retries, maxWait), true
}

// asked is how long the receiver wants to be left alone, within the limits of retries.
func (r *result) asked(now time.Time) (wait time.Duration, said bool) {
	wait, said = r.said(now)
	return min(max(wait, minWait), maxWait), said
}

// passing reports whether a failure may pass by itself.
func (r *result) passing() bool {
	switch {
	case r.delivered(), r.final:
		return false
	case r.status == 0, r.status == http.StatusTooManyRequests:
		return true
	}
	return r.status >= http.StatusInternalServerError && r.status != http.StatusNotImplemented
}

// said is how long the receiver wants to be left alone.
func (r *result) said(now time.Time) (time.Duration, bool) {
	text := r.header.Get("Retry-After")
	if text == "" || r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now), true
	}
	return 0, false
}

// unwanted reports whether the receiver may have refused what was sent, and not who sent it or where.
func (r *result) unwanted() bool {
	switch r.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// heavy reports whether the receiver may have failed at how much was sent: it takes longer for it than anybody
// waits, something in front of it does not let it pass, or one of the events is more than it can bear. If it has
// failed so before, and is not back, or busy, since, the cause is still the same.
func (r *result) heavy() bool {
	return r.broken || r.status >= http.StatusInternalServerError || r.strained && r.passing()
}
