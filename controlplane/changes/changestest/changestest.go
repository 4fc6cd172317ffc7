// Package changestest checks what both APIs have in common in reporting who changed what.
package changestest

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// API is an API over an empty store.
type API struct {
	// Write makes the change with a number. Each number makes a different change.
	Write func(n int)
	// Page returns the numbers of the changes at a target, and the target of the next page,
	// or "" after the last one.
	Page func(target string) (numbers []uint64, next string)
}

// PagesWhileOthersWrite demands that a client that follows the pages sees each change that
// existed at the beginning exactly once, no matter what is written meanwhile.
func PagesWhileOthersWrite(t *testing.T, open func(t *testing.T) API) {
	t.Helper()
	down := []uint64{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for start, want := range map[string][]uint64{
		"/changes?size=6":         down,
		"/changes?size=6&since=9": {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}, // and changes that were made before it got there
	} {
		a, n := open(t), 0
		for ; n < 20; n++ {
			a.Write(n)
		}
		var seen []uint64
		for next := start; next != ""; n++ {
			var numbers []uint64
			numbers, next = a.Page(next)
			if seen = append(seen, numbers...); len(seen) < 13 {
				a.Write(n)
			}
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", start, diff)
		}
	}
}

// Logged sends requests. For each it returns the method, and what its log line says about
// who did what to which resource. No line may contain any of the secrets.
func Logged(t *testing.T, h http.Handler, requests []*http.Request, secrets ...string) (out []string) {
	t.Helper()
	var log bytes.Buffer
	observed := httpkit.Observe(h, slog.New(slog.NewTextHandler(&log, nil)))
	for _, r := range requests {
		log.Reset()
		observed.ServeHTTP(httptest.NewRecorder(), r)
		line := r.Method
		for word := range strings.FieldsSeq(log.String()) {
			if name, _, _ := strings.Cut(word, "="); slices.Contains([]string{"status", "actor", "kind", "name"}, name) {
				line += " " + word
			}
		}
		out = append(out, line)
		for _, secret := range secrets {
			if strings.Contains(log.String(), secret) {
				t.Errorf("a secret: %s", &log)
			}
		}
	}
	return out
}
