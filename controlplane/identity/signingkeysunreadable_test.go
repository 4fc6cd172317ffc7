package identity

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestOneUnusableSigningKey: a key that cannot be read, or is not a key, validates no token.
// The tokens of the other keys of its mesh still count, the newest of these keys signs, and
// the mesh can rotate to another one. No serial is used twice.
func TestOneUnusableSigningKey(t *testing.T) {
	for name, spoil := range map[string]func(tt *tokenTest, s *storetest.Unreadable, serial string){
		"it cannot be read": func(_ *tokenTest, s *storetest.Unreadable, serial string) {
			s.Spoil(mesh.Secrets, "m", mesh.TokenSigningKey+"m-"+serial, true)
		},
		"it is no key": func(tt *tokenTest, _ *storetest.Unreadable, serial string) { tt.key("m", serial, []byte("no key")) },
	} {
		for _, bad := range []string{"1", "2", "3"} {
			t.Run(name+" "+bad, func(t *testing.T) {
				tt := newTokenTest(t)
				s := &storetest.Unreadable{Store: tt.store}
				tokens := NewDataplaneTokens(s, tt.clock.Now)
				of := map[string]string{}
				for i := range 3 {
					serial := strconv.Itoa(i + 1)
					tt.key("m", serial, pkcs1(signingKeys()[i]))
					of[serial] = tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", ValidFor: "1h"})
				}
				spoil(tt, s, bad)
				for serial, token := range of {
					_, err := tokens.Check(t.Context(), token)
					if serial == bad && (err == nil || fault.Is(err, fault.Denied)) || serial != bad && err != nil {
						t.Errorf("a token of key %s: %v", serial, err)
					}
				}
				want := map[string]string{"1": "3", "2": "3", "3": "2"}[bad]
				if serial, err := tokens.Newest(t.Context(), "m"); err != nil || serial != want {
					t.Errorf("key %s signs, not %s: %v", serial, want, err)
				}
				token, err := tokens.Issue(t.Context(), DataplaneTokenRequest{Mesh: "m", Name: "web", ValidFor: "1h"})
				if err != nil || KeyID(token) != want {
					t.Errorf("a token of key %q is issued: %v", KeyID(token), err)
				}
				if again, err := tokens.Exchange(t.Context(), of[want]); err != nil || KeyID(again) != want {
					t.Errorf("exchanged for one of key %q: %v", KeyID(again), err)
				}
				tt.listed(t, tokens, s, bad, want)
				if serial, err := tokens.Rotate(t.Context(), keyGate(s), "m"); err != nil || serial != "4" {
					t.Errorf("key %s comes next: %v", serial, err)
				}
			})
		}
	}
}

// TestUnreadableWithdrawal: a key whose withdrawal cannot be read stays withdrawn.
func TestUnreadableWithdrawal(t *testing.T) {
	tt := newTokenTest(t)
	s := &storetest.Unreadable{Store: tt.store}
	tokens := NewDataplaneTokens(s, tt.clock.Now)
	old := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", ValidFor: "1h"})
	tt.key("m", "2", pkcs1(signingKeys()[1]))
	tt.secret("m", mesh.TokenWithdrawnKey+"m-1", nil)
	s.Spoil(mesh.Secrets, "m", mesh.TokenWithdrawnKey+"m-1", true)
	if _, err := tokens.Check(t.Context(), old); err == nil {
		t.Error("its tokens count")
	}
	tt.removeKey("m", "2")
	if serial, err := tokens.Newest(t.Context(), "m"); err == nil {
		t.Errorf("key %s signs", serial)
	}
}

// listed checks how the three keys of a mesh are listed.
func (tt *tokenTest) listed(t *testing.T, tokens *DataplaneTokens, s store.Store, bad, signs string) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for _, serial := range []string{"1", "2", "3"} {
		want[serial] = strconv.FormatBool(serial != bad) + " " + strconv.FormatBool(serial == signs)
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		keys, err := tokens.Keys(r, "m")
		for _, k := range keys {
			got[k.Serial] = strconv.FormatBool(k.Bits > 0) + " " + strconv.FormatBool(k.Signs)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usable, signs: %s", diff)
	}
}
