package identity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestTokenTexts: each fault of a node token has a different text, and no text repeats the
// token. The text does not depend on when the token is shown, so that repeated refusals
// count as one.
func TestTokenTexts(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	open := func() *Tokens {
		s := memstore.New()
		t.Cleanup(func() { _ = s.Close() })
		tokens, err := OpenTokens(t.Context(), s, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	tokens, others := open(), open()
	issue := func(by *Tokens) string {
		token, err := by.Gateway("default", "gw", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good, foreign := issue(tokens), issue(others)
	for _, tc := range []struct {
		name, token string
		later       time.Duration
		want        string
	}{
		{"good", good, 0, ""},
		{"empty", "", 0, "the node token is empty"},
		{"garbage", "garbage", 0, "the node token is not a token"},
		{"three words", "gar.ba.ge", 0, "the node token is not a token"},
		{"of another control plane", foreign, 0, "the node token was signed by a key that this control plane does not know"},
		{"forged and expired", foreign, 2 * time.Hour, "the node token was signed by a key that this control plane does not know"},
		{"cut short", good[:len(good)-8], 0, "the node token was signed by a key that this control plane does not know"},
		{"expired", good, time.Hour + 90*time.Second, "the node token expired at 2026-01-01T13:00:00Z"},
		{"expired, a day later", good, 25 * time.Hour, "the node token expired at 2026-01-01T13:00:00Z"},
		{"early", good, -time.Hour, "the node token is good from 2026-01-01T11:55:00Z on, which is later than it is here"},
		{"as early, a minute later", good, -59 * time.Minute, "the node token is good from 2026-01-01T11:55:00Z on, which is later than it is here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := now
			defer func() { now = before }()
			now = now.Add(tc.later)
			_, err := tokens.Check(t.Context(), tc.token)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var detail string
			if e, ok := errors.AsType[*fault.Error](err); ok {
				detail = e.Detail
			}
			if detail != tc.want || !fault.Is(err, fault.Denied) || len(tc.token) > 0 && tc.name != "garbage" && strings.Contains(err.Error(), tc.token) {
				t.Errorf("got %v", err)
			}
		})
	}
}
