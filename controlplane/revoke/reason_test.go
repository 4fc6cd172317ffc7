package revoke

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// A filter that understands reasons is told that a token was revoked, as long as that is
// remembered and until the value is issued again. A filter that does not understand them
// gets the same answer as before.
func TestWhyATokenIsNotGood(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		name := w.mint("a", true)
		curious, _ := w.connectAccepting(contract.Hello{Instance: "curious"}, accepting+contract.AcceptHeader+": "+contract.AcceptReasons+"\r\n")
		older, _ := w.connectAccepting(contract.Hello{Instance: "older"}, accepting)
		answer := func(f *fake, token string) contract.Answer {
			t.Helper()
			f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7, Token: contract.HashToken([]byte(token)), Plugin: "plugin"}).Encode())
			for {
				kind, body, err := contract.ReadFrame(f.in)
				if err != nil {
					t.Fatal(err)
				}
				if kind != contract.FrameResult {
					continue // a frame about the revocation or about Redis
				}
				res, err := contract.DecodeResult(body)
				if err != nil {
					t.Fatal(err)
				}
				return res.Answer
			}
		}
		expect := func(when, token string, ofCurious, ofOlder contract.Answer) {
			t.Helper()
			if c, o := answer(curious, token), answer(older, token); c != ofCurious || o != ofOlder {
				t.Errorf("%s: answers %d and %d, want %d and %d", when, c, o, ofCurious, ofOlder)
			}
		}
		expect("there", "a", contract.Found, contract.Found)
		if err := w.delete(name); err != nil {
			t.Fatal(err)
		}
		expect("revoked", "a", contract.Revoked, contract.Unknown)
		expect("never there", "b", contract.Unknown, contract.Unknown)
		w.mint("a", true)
		expect("there again", "a", contract.Found, contract.Found)
	})
}
