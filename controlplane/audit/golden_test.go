package audit

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/e2e/golden"
)

// TestLoginsStay: the lines of logins are those that receivers have known from the start, to the byte.
func TestLoginsStay(t *testing.T) {
	s := signer(t)
	var b bytes.Buffer
	for _, change := range []func(*Event){
		func(*Event) {},
		func(e *Event) { e.Outcome, e.Principal = NotFound, "" },
		func(e *Event) { e.Outcome, e.Method, e.Source = Invalid, Unknown, netip.Addr{} },
		func(e *Event) { e.Outcome, e.UserAgent = Locked, "a=b|c\\d\n<&>\xff" },
		func(e *Event) { e.Outcome, e.Source = Test, netip.MustParseAddr("2001:db8::1") },
	} {
		e := login()
		change(e)
		b.Write(append(origin.CEF(e, s), '\n'))
		b.Write(append(origin.JSON(e, s), '\n'))
	}
	golden.Compare(t, filepath.Join("testdata", "logins.txt"), b.Bytes())
}
