package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	refreshAsApp    = "grant_type=refresh_token&" + asApp + "&refresh_token="
	refreshAsPublic = "grant_type=refresh_token&client_id=public&refresh_token="
)

// refresh redeems a refresh token of the confidential client.
func (w *world) refresh(value string) (status int, access, next string) {
	w.t.Helper()
	status, doc := w.post("token", refreshAsApp+value)
	access, _ = doc["access_token"].(string)
	next, _ = doc["refresh_token"].(string)
	return status, access, next
}

// TestGraceReturnsTheSameSuccessor: however often a spent refresh token is sent again within
// the grace, there is one successor, and one row.
func TestGraceReturnsTheSameSuccessor(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		_, first := w.newPair()
		status, access, second := w.refresh(first)
		if status != 200 || second == "" || second == first {
			t.Fatalf("%d %q", status, second)
		}
		w.now = w.now.Add(9 * time.Second)
		for i := range 2287 {
			if status, a, r := w.refresh(first); status != 200 || a != access || r != second {
				t.Fatalf("replay %d: %d, another pair", i, status)
			}
		}
		_, doc := w.post("token", refreshAsApp+first)
		if left, _ := doc["expires_in"].(float64); left < 50 || left > 51 {
			t.Errorf("expires_in is %v, 9 seconds of 60 have passed", doc["expires_in"])
		}
		if n := w.count(gateway.Tokens); n != 1 {
			t.Errorf("%d tokens", n)
		}
		if status, _, _ := w.refresh(second); status != 200 {
			t.Errorf("the successor is refused: %d", status)
		}
	})
}

// TestReplayAfterTheSuccessorWasUsed: a client that sends the predecessor after the successor
// was used did not get the successor. So the whole family is revoked.
func TestReplayAfterTheSuccessorWasUsed(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		_, first := w.newPair()
		_, _, second := w.refresh(first)
		_, access, third := w.refresh(second)
		if status, _, _ := w.refresh(first); status != 400 {
			t.Errorf("the replay: %d", status)
		}
		if w.lives(access) || w.count(gateway.Tokens) != 0 {
			t.Error("the family lives")
		}
		for _, r := range []string{third, second, first} {
			if status, _, _ := w.refresh(r); status != 400 {
				t.Errorf("afterwards: %d", status)
			}
		}
	})
}

// TestThiefAndClientHoldOneChain lets two parties with the same refresh token redeem what
// they hold, in any order and at any pace. At most one token lives at any time, so they never
// hold independent chains.
func TestThiefAndClientHoldOneChain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, strict())
		_, first := w.newPair()
		held := [2][]string{{first}, {first}}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12).Draw(rt, "seconds")) * time.Second)
			who := rapid.IntRange(0, 1).Draw(rt, "who")
			sent := rapid.SampledFrom(held[who]).Draw(rt, "sent")
			if status, _, next := w.refresh(sent); status == 200 {
				held[who] = append(held[who], next)
			}
			if n := w.count(gateway.Tokens); n > 1 {
				rt.Fatalf("%d tokens live", n)
			}
		}
	})
}

// TestConcurrentReplays: a hundred requests at three servers all get the same successor.
func TestConcurrentReplays(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		_, refresh := w.newPair()
		pairs := map[string]int{}
		for _, a := range w.flood(refreshAsApp + refresh) {
			var doc reply
			if err := json.Unmarshal(a.Body.Bytes(), &doc); err != nil || a.Code != 200 {
				t.Errorf("%d %s", a.Code, a.Body)
			}
			pairs[doc.AccessToken+" "+doc.RefreshToken]++
		}
		if len(pairs) != 1 || w.count(gateway.Tokens) != 1 {
			t.Errorf("%d pairs, %d rows", len(pairs), w.count(gateway.Tokens))
		}
	})
}

// TestConcurrentReplaysOfPublicClients: without grace one request wins, and its token is
// revoked with the family. All answers are 200 or 400.
func TestConcurrentReplaysOfPublicClients(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		oneSucceeds(t, w.flood(refreshAsPublic+w.publicRefresh()), "Invalid refresh_token")
		if n := w.count(gateway.Tokens); n != 0 {
			t.Errorf("%d tokens are left", n)
		}
	})
}

// publicRefresh returns a refresh token of the public client.
func (w *world) publicRefresh() string {
	w.t.Helper()
	status, doc := w.post("token", "grant_type=authorization_code&client_id=public&code_verifier="+verifier+"&code="+w.newCodeOf("public"))
	if status != 200 {
		w.t.Fatalf("%d %v", status, doc)
	}
	return doc["refresh_token"].(string)
}

// TestPublicClientsHaveNoGrace: a public client proves nothing beside its refresh token, so
// the second use of one counts as theft at once.
func TestPublicClientsHaveNoGrace(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		first := w.publicRefresh()
		status, doc := w.post("token", refreshAsPublic+first)
		if status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		if status, doc := w.post("token", refreshAsPublic+first); status != 400 || doc["error"] != "invalid_grant" {
			t.Errorf("the replay: %d %v", status, doc)
		}
		if w.lives(doc["access_token"].(string)) || w.count(gateway.Tokens) != 0 {
			t.Error("the family lives")
		}
	})
}

// TestSpentCodesHaveNoGrace: a spent code that is presented as a refresh token is as much a
// sign of theft as a code that is presented twice.
func TestSpentCodesHaveNoGrace(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		code := w.newCode()
		status, doc := w.post("token", "grant_type=authorization_code&"+asApp+"&code_verifier="+verifier+"&code="+code)
		if status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		if status, _, _ := w.refresh(code); status != 400 {
			t.Errorf("the code as refresh token: %d", status)
		}
		if n := w.count(gateway.Tokens); n != 0 {
			t.Errorf("%d tokens are left", n)
		}
	})
}

// dying is a write path that dies after the commit and before the answer.
type dying struct {
	store.Store
	settled
}

// Write implements Writer.
func (d dying) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	_, err := d.Update(ctx, class, fn)
	return store.Commit{}, errors.Join(err, errDied)
}

// unheard is a write path whose commits stand, but that can tell no filter about them.
type unheard struct {
	store.Store
	settled
}

// Write implements Writer.
func (u unheard) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	c, err := u.Update(ctx, class, fn)
	return c, errors.Join(err, fault.New(fault.Unavailable, "the token may still be accepted"))
}

// TestRefreshThatNobodyHears: a refresh whose commit stands is answered with its token, even
// if the filters could not be told about the predecessor. A refusal would make the client try
// again with a token that is spent. The answer has a warning; other answers have none.
func TestRefreshThatNobodyHears(t *testing.T) {
	lax := strict()
	lax.Profile = gateway.ProfileOAuth20
	for name, config := range map[string]gateway.OAuth2Config{"strict": strict(), "default": lax} {
		t.Run(name, func(t *testing.T) {
			worlds(t, config, func(t *testing.T, w *world) {
				_, first := w.newPair()
				s := w.open()
				s.Writer = unheard{Store: w.db}
				a := askServer(s, "POST", "/x/oauth2/token", form, refreshAsApp+first, nil)
				var doc reply
				if err := json.Unmarshal(a.Body.Bytes(), &doc); err != nil || a.Code != 200 || !w.lives(doc.AccessToken) || a.Header().Get("Warning") != warningUnheard {
					t.Fatalf("%d %v %s", a.Code, a.Header(), a.Body)
				}
				if heard := askServer(w.open(), "POST", "/x/oauth2/token", form, refreshAsApp+doc.RefreshToken, nil); heard.Code != 200 || heard.Header().Get("Warning") != "" {
					t.Errorf("%d %v", heard.Code, heard.Header())
				} else if err := json.Unmarshal(heard.Body.Bytes(), &doc); err != nil {
					t.Fatal(err)
				}
				if status, _, _ := w.refresh(doc.RefreshToken); status != 200 {
					t.Errorf("its successor: %d", status)
				}
			})
		})
	}
}

// unsettled is a write path while a revocation by somebody else may still be ineffective.
type unsettled struct{ store.Store }

// Write implements Writer.
func (u unsettled) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return u.Update(ctx, class, fn)
}

// Settle implements Writer.
func (unsettled) Settle(context.Context, ...string) error {
	return fault.New(fault.Unavailable, "the token may still be accepted")
}

// TestRepeatedRefreshThatNobodyHears: an answer that is repeated within the grace has the
// warning until the revocation of the predecessor is settled.
func TestRepeatedRefreshThatNobodyHears(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		_, first := w.newPair()
		if status, _, _ := w.refresh(first); status != 200 {
			t.Fatal(status)
		}
		s := w.open()
		s.Writer = unsettled{w.db}
		for want, server := range map[string]*Server{warningUnheard: s, "": w.open()} {
			if a := askServer(server, "POST", "/x/oauth2/token", form, refreshAsApp+first, nil); a.Code != 200 || a.Header().Get("Warning") != want {
				t.Errorf("%d, warning %q, want %q: %s", a.Code, a.Header().Get("Warning"), want, a.Body)
			}
		}
	})
}

// TestLostAnswer: the process dies between commit and answer. A client that asks again gets
// what was committed, whichever server it asks.
func TestLostAnswer(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		_, first := w.newPair()
		lost := w.open()
		lost.Writer = dying{Store: w.db}
		if a := askServer(lost, "POST", "/x/oauth2/token", form, refreshAsApp+first, nil); a.Code != 500 {
			t.Fatalf("%d %s", a.Code, a.Body)
		}
		status, access, second := w.refresh(first)
		if status != 200 || !w.lives(access) || w.count(gateway.Tokens) != 1 {
			t.Fatalf("%d, %d tokens", status, w.count(gateway.Tokens))
		}
		if status, _, _ := w.refresh(second); status != 200 {
			t.Errorf("its successor: %d", status)
		}
	})
}

// TestNoGraceBeforeTheUse: if the clock is behind the time at which a refresh token was used,
// it was set back. Nobody knows how long ago the use was, so there is no grace. A clock that
// a time server moves by a little keeps the grace.
func TestNoGraceBeforeTheUse(t *testing.T) {
	for back, want := range map[time.Duration]int{time.Hour: 400, clockStep + time.Second: 400, clockStep: 200, 0: 200} {
		worlds(t, strict(), func(t *testing.T, w *world) {
			_, first := w.newPair()
			_, access, _ := w.refresh(first)
			w.now = w.now.Add(-back)
			if status, _, _ := w.refresh(first); status != want || w.lives(access) != (want == 200) {
				t.Errorf("set back by %v: %d, the successor lives: %v", back, status, w.lives(access))
			}
		})
	}
}
