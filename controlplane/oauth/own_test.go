package oauth_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestRecordsOfWhatTwoMembersHave: a record that its own control plane asks for says whether
// it counts in groups as well. Only what upstreams are told matters, and that of members.
func TestRecordsOfWhatTwoMembersHave(t *testing.T) {
	w := newRivals(t)
	token := w.issued("a", "own", "", forItself())["access_token"].(string)
	w.write("a", gateway.Keys, "key", &gateway.Key{Key: "of a", Consumer: "eve"})
	w.write("c", gateway.Consumers, "eve", &gateway.Consumer{Username: "eve"}) // of no group
	w.write("c", gateway.Applications, "client", application("client", "third", "eve"))
	expect := func(when string, wantToken, wantKey bool) {
		t.Helper()
		for what, one := range map[string]struct {
			hash contract.Hash
			want bool
		}{"token": {contract.HashToken([]byte(token)), wantToken}, "key": {contract.HashKey([]byte("of a")), wantKey}} {
			rec, answer, _, err := w.source.Record(t.Context(), "a", one.hash)
			if err != nil || answer != contract.Found || rec.Own != one.want {
				t.Errorf("%s, the %s: %+v, %v, want %t", when, what, rec, err, one.want)
			}
		}
	}
	expect("alone", false, false)
	w.change("b", gateway.Applications, "bobs", application("client", "other", "bob"))
	expect("an application of its client_id", true, false)
	w.change("b", gateway.Applications, "bobs", application("bobs", "other", "bob"))
	expect("which gave way", false, false)
	w.write("b", gateway.Keys, "key", &gateway.Key{Key: "of b", Consumer: "bob"})
	expect("a key of its id", false, true)
	w.change("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "eve"})
	expect("a consumer of its username", true, true)
}
