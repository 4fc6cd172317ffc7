package adminlink

import (
	"strings"
	"testing"
)

// TestReportsAreKeptInPart: what is kept of a pong, for as long as its link lives, is not
// many times as large as what was sent.
func TestReportsAreKeptInPart(t *testing.T) {
	for name, body := range map[string]string{
		"many conditions":  `{"conditions":[` + strings.Repeat(`{},`, 20_000) + `{}]}`,
		"one that is long": `{"trouble":"` + strings.Repeat("a", 60_000) + `","conditions":[{"name":"` + strings.Repeat("b", 2000) + `"}]}`,
		"null":             `{"conditions":null}`,
		"no list":          `{"conditions":{}}`,
		"no report":        strings.Repeat("c", 60_000),
	} {
		r := parseReport([]byte(body))
		if n := cap(r.Conditions); n > 2*maxConditions {
			t.Errorf("%s: room for %d conditions", name, n)
		}
		if len(r.Conditions) > maxConditions || len(r.Trouble) > maxReason {
			t.Errorf("%s: %d conditions, %d bytes", name, len(r.Conditions), len(r.Trouble))
		}
	}
}
