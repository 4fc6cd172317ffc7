package delivery

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
)

// keyring is what signs, the newest first. A rotation changes it while the engine works.
type keyring struct {
	mu   sync.Mutex
	keys []ed25519.PrivateKey
}

func (k *keyring) list() []ed25519.PrivateKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// rotate adds the key of a seed; compromised withdraws the others.
func (k *keyring) rotate(seed byte, compromised bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	if compromised {
		k.keys = nil
	}
	k.keys = append([]ed25519.PrivateKey{key}, k.keys...)
}

// verifies returns the kid of the published key that has signed a line, or nothing.
func (k *keyring) verifies(line []byte) (kid string) {
	signed, text, inCEF := bytes.Cut(line, []byte(" sig="))
	if !inCEF {
		var e struct{ Sig string }
		if json.Unmarshal(line, &e) != nil {
			return ""
		}
		text, signed = []byte(e.Sig), bytes.Replace(line, []byte(`,"sig":"`+e.Sig+`"`), nil, 1)
	}
	sig, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil {
		return ""
	}
	for _, key := range audit.NewSigner(k.list).Keys().Keys {
		public, err := base64.RawURLEncoding.DecodeString(key.X)
		if err == nil && ed25519.Verify(public, signed, sig) {
			return key.ID
		}
	}
	return ""
}

// verifying is a SIEM that answers 503 to a request with an event that no published key verifies, as the
// documentation says, and notes which keys have signed what it takes.
type verifying struct {
	*receiver
	keys    *keyring
	mu      sync.Mutex
	refused int
	kids    []string
}

func newVerifying(t *testing.T, keys *keyring) *verifying {
	v := &verifying{receiver: newReceiver(t), keys: keys}
	v.answering(v.take)
	return v
}

func (v *verifying) take(w http.ResponseWriter, req *http.Request) {
	var ids, kids []string
	for lines := bufio.NewScanner(req.Body); lines.Scan(); {
		var e struct {
			ID string `json:"event_id"`
		}
		kid := v.keys.verifies(lines.Bytes())
		if json.Unmarshal(lines.Bytes(), &e) != nil || kid == "" {
			v.mu.Lock()
			v.refused++
			v.mu.Unlock()
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		ids, kids = append(ids, e.ID), append(kids, kid)
	}
	v.receiver.mu.Lock()
	v.taken = append(v.taken, ids...)
	v.receiver.mu.Unlock()
	v.mu.Lock()
	v.kids = append(v.kids, kids...)
	v.mu.Unlock()
}

// signers are the keys that have signed what was taken.
func (v *verifying) signers() (refused int, kids []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	kids = slices.Clone(v.kids)
	slices.Sort(kids)
	return v.refused, slices.Compact(kids)
}

// TestKeysChangeDuringDeliveries: while the keys are rotated, and withdrawn, each event arrives once, in order and
// signed by a key that is published when it arrives. After rotations alone, none has to be sent again.
func TestKeysChangeDuringDeliveries(t *testing.T) {
	for name, compromised := range map[string]bool{"rotated": false, "compromised": true} {
		t.Run(name, func(t *testing.T) {
			w, keys := newWorld(t), &keyring{}
			keys.rotate(1, false)
			w.keys = keys.list
			v := newVerifying(t, keys)
			w.hook("p", v.receiver, true)
			want := w.happen("p", 0, 100)
			w.start()
			for seed := byte(2); seed < 12; seed++ {
				from := len(want)
				want = append(want, w.happen("p", from, from+40)...)
				until(t, "some events", func() bool { return len(v.events()) > from })
				keys.rotate(seed, compromised)
			}
			want = append(want, w.happen("p", len(want), len(want)+1)...)
			until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", uint64(len(want))) })
			if got := v.events(); !slices.Equal(got, want) {
				t.Errorf("%d of %d events arrived: %v", len(got), len(want), got)
			}
			refused, kids := v.signers()
			if len(kids) < 11 || refused > 0 && !compromised {
				t.Errorf("%d requests were not verified, and %d keys have signed", refused, len(kids))
			}
		})
	}
}

// TestWithdrawnBetweenAttempts: a request that fails is signed anew when it comes again: the key that had signed it
// may be withdrawn, and its receiver would believe none of the further attempts.
func TestWithdrawnBetweenAttempts(t *testing.T) {
	w, keys := newWorld(t), &keyring{}
	w.hold = true
	keys.rotate(1, false)
	w.keys = keys.list
	v := newVerifying(t, keys)
	v.answering(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.hook("p", v.receiver, true)
	want := w.happen("p", 0, 3)
	w.start()
	<-w.held
	keys.rotate(2, true)
	v.answering(v.take)
	w.resume()
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 3) })
	if refused, kids := v.signers(); refused != 0 || len(kids) != 1 || !slices.Equal(v.events(), want) {
		t.Errorf("%d requests were not verified; %v arrived, signed by %v", refused, v.events(), kids)
	}
}

// TestSinksSignWithTheNewestKey: what goes to a collector by syslog is signed with the newest key, too.
func TestSinksSignWithTheNewestKey(t *testing.T) {
	w, keys := newWorld(t), &keyring{}
	keys.rotate(1, false)
	w.keys = keys.list
	c := newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	for seed := byte(2); seed < 4; seed++ {
		want := w.happen("p", int(seed), int(seed)+1)
		until(t, "the event", func() bool { return slices.Equal(c.events()[max(0, len(c.events())-1):], want) })
		c.mu.Lock()
		kid := keys.verifies([]byte(c.lines[len(c.lines)-1]))
		c.mu.Unlock()
		if newest := audit.NewSigner(keys.list).Keys().Keys[0].ID; kid != newest {
			t.Errorf("signed by %q and not by %s", kid, newest)
		}
		keys.rotate(seed, true)
	}
}
