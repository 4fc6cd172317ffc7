package identity

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
)

// TestHolder: an exchange does not change the holder of a token.
func TestHolder(t *testing.T) {
	tt := newTokenTest(t)
	bound, unbound := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web"}), tt.issue(DataplaneTokenRequest{Mesh: "other"})
	tt.key("other", "2", pkcs1(signingKeys()[1]))
	exchanged, err := tt.Exchange(t.Context(), unbound)
	if err != nil || exchanged == unbound {
		t.Fatalf("it is not exchanged: %v", err)
	}
	gateway, err := openTokens(t, identitytest.NewClock()).Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ token, mesh string }{
		"bound": {bound, "m"}, "unbound": {unbound, "other"}, "as a header": {"Bearer " + unbound, "other"}, "exchanged": {exchanged, "other"}, "of a gateway": {gateway, ""},
	} {
		id, meshName := Holder(test.token)
		if id == "" || meshName != test.mesh {
			t.Errorf("%s: id %q, mesh %q", name, id, meshName)
		}
	}
	before, _ := Holder(unbound)
	if after, _ := Holder(exchanged); after != before {
		t.Errorf("exchanged it has another id")
	}
}
