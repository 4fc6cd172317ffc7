package oauth_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
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

// TestRecordsOfOneValue: of a token or a key that two members hold, the record of the one that
// had it second says that it counts at its own gateways only, until the first one gives way
// in whatever way. Who had it once and takes it again is the second one.
func TestRecordsOfOneValue(t *testing.T) {
	type credential struct {
		kind *model.Kind
		hash contract.Hash
		spec func(scope, value string) any
	}
	owner := map[string]string{"a": "eve", "b": "bob", "c": "carl"}
	app := map[string]string{"a": "app", "b": "bobs", "c": "carls"}
	for what, cred := range map[string]credential{
		"token": {gateway.Tokens, contract.HashToken([]byte("shared")), func(scope, value string) any {
			return &gateway.Token{Credential: app[scope], TokenType: gateway.TokenBearer, AccessToken: value}
		}},
		"key": {gateway.Keys, contract.HashKey([]byte("shared")), func(scope, value string) any {
			return &gateway.Key{Consumer: owner[scope], Key: value}
		}},
	} {
		for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
			first, second := order[0], order[1]
			t.Run(what+" of "+first+" first", func(t *testing.T) {
				w := newRivals(t)
				w.write("c", gateway.Consumers, "carl", &gateway.Consumer{Username: "carl"})
				w.write("c", gateway.Applications, "carls", application("carls", "third", "carl"))
				announced := 0
				hold := func(scope string) {
					w.write(scope, cred.kind, what+" of "+scope, cred.spec(scope, "shared"))
					announced++
					w.write("c", gateway.Consumers, fmt.Sprint(announced), &gateway.Consumer{})
				}
				expect := func(when, holder string, own map[string]bool) {
					t.Helper()
					w.counts(when, holder, cred.hash)
					for scope, want := range own {
						rec, _, _, err := w.source.Record(t.Context(), scope, cred.hash)
						if rec == nil || err != nil || rec.Plane != scope || rec.Own != want {
							t.Errorf("%s, that of %s: %+v, %v, want own %t", when, scope, rec, err, want)
						}
						w.sameOfRow(cred.kind, scope, what+" of "+scope, rec)
					}
				}
				hold("c") // before everybody, in no group
				hold(first)
				expect("alone", first, map[string]bool{first: false, "c": false})
				hold(second)
				expect("a second one", first, map[string]bool{first: false, second: true, "c": false})
				w.change(first, cred.kind, what+" of "+first, cred.spec(first, "another"))
				expect("which the first one gave away", second, map[string]bool{second: false})
				w.change(first, cred.kind, what+" of "+first, cred.spec(first, "shared"))
				expect("and took again", second, map[string]bool{first: true, second: false})
				w.remove(cred.kind, second, what+" of "+second)
				expect("which the other one deleted", first, map[string]bool{first: false})
				hold(second)
				w.members(second)
				expect("which left", second, map[string]bool{first: false, second: false})
			})
		}
	}
}

// sameOfRow demands that what is said of a row is what is said of its value.
func (w *groupWorld) sameOfRow(k *model.Kind, scope, name string, want *contract.Record) {
	w.t.Helper()
	if err := w.db.View(w.t.Context(), func(r store.Reader) error {
		row, err := r.Get(k, scope, name)
		if err != nil {
			return err
		}
		got, err := w.source.Made(r, row)
		if got != nil {
			got.Revision = r.Revision()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("of its row: %s", diff)
		}
		return err
	}); err != nil {
		w.t.Error(err)
	}
}
