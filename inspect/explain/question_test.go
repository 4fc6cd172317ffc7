package explain

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// TestQuestionsThatCannotBeImagined: what proxies treat in a way that is not followed here is refused
// by the name of its parameter, and nothing is guessed about it.
func TestQuestionsThatCannotBeImagined(t *testing.T) {
	long := "header=a:" + strings.Repeat("x", 4000)
	for name, c := range map[string]struct{ query, want string }{
		"a request":             {"source=a&destination=b&method=PATCH&header=x:1&header=content-type:application/json", ""},
		"gRPC":                  {"header=Content-Type:Application/gRPC%2Bproto", ParamHeader},
		"a method of one's own": {"method=FOO", ParamMethod},
		"a tunnel":              {"method=CONNECT", ParamMethod},
		"very long headers":     {strings.TrimSuffix(strings.Repeat(long+"&", 9), "&"), ParamHeader},
		"another parameter":     {"sorce=a", "sorce"},
		"a header of proxies":   {"header=x-forwarded-client-cert:a", ParamHeader},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Read(query, "", ParamSource, ParamDestination, ParamMethod, ParamHeader)
		got := ""
		if f, ok := errors.AsType[*fault.Error](err); ok && len(f.Violations) > 0 {
			got = f.Violations[0].Path
		}
		if got != c.want {
			t.Errorf("%s: violation of %q, want %q (%v)", name, got, c.want, err)
		}
	}
}
