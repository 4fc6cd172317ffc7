package oauth_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestRecordsOfWhatTwoMembersHave: a record that its own control plane asks for says whether it
// counts in groups as well: not while another member had first what upstreams are told. What
// others took later, and what those have who are in no group with it, does not matter.
func TestRecordsOfWhatTwoMembersHave(t *testing.T) {
	w := newRivals(t)
	_, doc := w.ask("token", asBobs(forItself()))
	token := doc["access_token"].(string)
	w.write("b", gateway.Keys, "keyb", &gateway.Key{Key: "of b", Consumer: "bob"})
	w.write("c", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"}) // of no group
	w.write("c", gateway.Applications, "bobs", application("bobs", "third", "bob"))
	first := w.issued("a", "own", "", forItself())["access_token"].(string)
	expect := func(when string, wantToken, wantKey bool) {
		t.Helper()
		for what, one := range map[string]struct {
			scope string
			hash  contract.Hash
			want  bool
		}{
			"token": {"b", contract.HashToken([]byte(token)), wantToken}, "key": {"b", contract.HashKey([]byte("of b")), wantKey},
			"token of the first": {"a", contract.HashToken([]byte(first)), false},
		} {
			rec, answer, _, err := w.source.Record(t.Context(), one.scope, one.hash)
			if err != nil || answer != contract.Found || rec.Own != one.want {
				t.Errorf("%s, the %s: %+v, %v, want %t", when, what, rec, err, one.want)
			}
		}
	}
	expect("alone", false, false)
	w.change("b", gateway.Applications, "bobs", application("client", "other", "bob"))
	expect("an application of the first one's client_id", true, false)
	w.change("b", gateway.Applications, "bobs", application("bobs", "other", "bob"))
	expect("which gave way", false, false)
	w.change("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "eve"})
	expect("a consumer of the first one's username", true, true)
	w.change("a", gateway.Consumers, "eve", &gateway.Consumer{Username: "ann"})
	expect("which the first one gave away", false, false)
	w.change("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob", CustomID: "x"})
	w.write("a", gateway.Keys, "keyb", &gateway.Key{Key: "of a", Consumer: "eve"})
	expect("a later key of its id", false, false)
}
