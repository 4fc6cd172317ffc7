package identity

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestProofOfDataplanes: a client that is refused with its own token is known. A client that
// made up a token, or has another's, is not.
func TestProofOfDataplanes(t *testing.T) {
	tt := newTokenTest(t)
	genuine := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "gone", ValidFor: "1h"})
	revoked := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", ValidFor: "1h"})
	c, err := tt.Check(t.Context(), revoked)
	if err != nil {
		t.Fatal(err)
	}
	revokedID := c.ID
	tags := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", Tags: map[string][]string{"nobody": {"has it"}}, ValidFor: "1h"})
	anyone := tt.issue(DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"nobody": {"has it"}}, ValidFor: "1h"})
	nameless := tt.issue(DataplaneTokenRequest{Mesh: "m", ValidFor: "1h"})
	if c, err = tt.Check(t.Context(), nameless); err != nil {
		t.Fatal(err)
	}
	tt.secret("m", mesh.TokenRevocations+"m", []byte(revokedID+","+c.ID))
	deleted := tt.issue(DataplaneTokenRequest{Mesh: "other", Name: "web", ValidFor: "1h"})
	tt.removeKey("other", "1")
	for name, test := range map[string]struct {
		node, token string
		want        bool
	}{
		"its dataplane is gone":     {"m.gone", genuine, true},
		"revoked":                   {"m.web", revoked, true},
		"its tags are others":       {"m.web", tags, true},
		"another's":                 {"m.web", genuine, false},
		"no one's, by its tags":     {"m.web", anyone, false},
		"no one's, revoked":         {"m.web", nameless, false},
		"no one's, not of its mesh": {"other.web", nameless, false},
		"another's that is revoked": {"m.gone", revoked, false},
		"its key is gone":           {"other.web", deleted, false},
		"another signature":         {"m.web", revoked[:len(revoked)-8] + "AAAAAAAA", false},
		"made up":                   {"m.web", "x.y.z", false},
		"none":                      {"m.web", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.authenticate(test.node, test.token)
			if err == nil || Proves(err, test.node) != test.want {
				t.Errorf("it proves %v: %v", !test.want, err)
			}
		})
	}
}

// TestProofOfGateways does the same for gateways. An expired token is still proof.
func TestProofOfGateways(t *testing.T) {
	c := identitytest.NewClock()
	tokens := openTokens(t, c)
	old, err := tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c.Advance(2 * time.Hour)
	for name, test := range map[string]struct {
		token string
		want  bool
	}{
		"it has ended":                {old, true},
		"its claims with another key": {sign(t, jwt.SigningMethodRS256, "1", signingKeys()[1], with("jti", "x")), false},
		"none":                        {"", false},
	} {
		_, err := tokens.Check(t.Context(), test.token)
		if err == nil || Proves(err, "cp/default/gw") != test.want || Proves(err, "cp/default/other") {
			t.Errorf("%s: it proves %v: %v", name, !test.want, err)
		}
	}
}
