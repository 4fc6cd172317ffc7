package revoke

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestDeleteWaitsForAcknowledgement(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		name := w.mint("a", false)
		f, _ := w.connect("i")
		f.lease()
		done := async(func() error { return w.delete(name) })
		m := f.invalidated()
		want := []contract.Invalidation{{Subject: contract.SubjectToken, Token: contract.HashToken([]byte("a")), Revision: w.store.Revision()}}
		if d := cmp.Diff(want, m.Items); d != "" {
			t.Fatal(d)
		}
		stillWaits(t, "a revocation without an acknowledgement", done)
		f.ack(m.To)
		if d, err := took(t, done); err != nil || d != 0 {
			t.Fatalf("%v after %v", err, d)
		}
		if s := w.r.Stats(); s.Links != 1 || s.LiveLeases != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestSilentFilterDelaysOneLease(t *testing.T) {
	t.Parallel()
	for _, half := range []bool{false, true} {
		alone(t, func(t *testing.T, w *world) {
			name := w.mint("a", false)
			f, _ := w.connect("i")
			f.lease()
			end := w.leaseEnd()
			done := async(func() error { return w.delete(name) })
			f.invalidated()
			if half { // the link breaks unacknowledged: the lease still counts
				f.cut()
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if early := time.Until(end); early != 0 {
				t.Errorf("answered %v before the lease was over", early)
			}
		})
	}
}

func TestReplayBeforeFirstGrant(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		name := w.mint("a", false)
		if err := w.delete(name); err != nil {
			t.Fatal(err)
		}
		f, wel := w.connect("i")
		if len(f.first.Items) != 1 || f.first.From != 0 || f.first.To != 2 || wel.From != 0 {
			t.Fatalf("%+v %+v", wel, f.first)
		}
		f.lease()
		g, wel := w.connectAccepting(contract.Hello{Instance: "i", Log: wel.Log, Applied: f.first.To}, "")
		if wel.From != f.first.To {
			t.Errorf("%+v", wel)
		}
		g.lease() // nothing was missed
	})
}

func TestRestartWaitsOneLeaseAndRemembers(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		first, second := w.mint("a", false), w.mint("b", false)
		if err := w.delete(first); err != nil {
			t.Fatal(err)
		}
		w.connect("predecessor's")
		w.open(nil)
		if err := w.delete(second); err != nil {
			t.Fatal(err)
		}
		if early := time.Until(w.r.started.Add(contract.Lease)); early > 0 {
			t.Errorf("first answer %v too early", early)
		}
		if f, _ := w.connect("i"); len(f.first.Items) != 2 {
			t.Errorf("replayed %+v", f.first)
		}
	})
}

// TestStartWithoutFiltersAnswersAtOnce: no filter can hold a lease from a predecessor that
// knew no filter.
func TestStartWithoutFiltersAnswersAtOnce(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		n := w.mint("a", false)
		w.open(nil)
		w.begun(time.Now().Add(time.Hour)) // a caller that waits for a lease from here fails
		if err := w.delete(n); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhatRevokes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(w *world) error
		want []contract.Subject
	}{
		{"consumer with all below", func(w *world) error {
			w.mint("a", false)
			return w.write(func(tx store.Tx) error { return tx.Delete(gateway.Consumers, scope, w.owner, 0) })
		}, []contract.Subject{contract.SubjectCredential, contract.SubjectConsumer}},
		{"minted", func(w *world) error { w.mint("a", false); return nil }, nil},
		{"created with a value", func(w *world) error { w.mint("a", true); return nil }, []contract.Subject{contract.SubjectToken}},
		{"token takes another value", func(w *world) error {
			n := w.mint("a", false)
			return w.write(func(tx store.Tx) error {
				old, err := tx.Get(gateway.Tokens, scope, n)
				if err != nil {
					return err
				}
				spec, next := *old.Spec.(*gateway.Token), *old
				spec.AccessToken, next.Spec = "b", &spec
				_, err = tx.Update(&next, 0)
				return err
			})
		}, []contract.Subject{contract.SubjectToken, contract.SubjectToken}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil) // no filter is linked
			if err := tt.do(w); err != nil {
				t.Fatal(err)
			}
			var got []contract.Subject
			for _, e := range w.r.history.entries {
				got = append(got, e.inv.Subject)
				if !e.again && e.expires < time.Now().Add(time.Hour).UnixMilli() {
					t.Errorf("%+v ends before its tokens", e)
				}
			}
			counts := func(s []contract.Subject) map[contract.Subject]int {
				m := map[contract.Subject]int{}
				for _, v := range s {
					m[v]++
				}
				return m
			}
			if d := cmp.Diff(counts(tt.want), counts(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestIntrospection(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		w.mint("a", false)
		f, _ := w.connect("i")
		for _, tt := range []struct {
			token, plugin string
			want          contract.Answer
		}{{"a", "plugin", contract.Found}, {"x", "plugin", contract.Unknown}, {"a", "other", contract.Unavailable}} {
			f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7, Token: contract.HashToken([]byte(tt.token)), Plugin: tt.plugin}).Encode())
			res, err := contract.DecodeResult(f.expect(contract.FrameResult))
			if err != nil || res.ID != 7 || res.Answer != tt.want || (tt.want != contract.Unavailable && res.Revision != w.store.Revision()) {
				t.Errorf("%s at %s: %+v %v", tt.token, tt.plugin, res, err)
			}
		}
	})
}

func TestByeFreesTheFilter(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		name := w.mint("a", false)
		f, _ := w.connect("i")
		f.lease()
		done := async(func() error { return w.delete(name) })
		f.invalidated()
		f.send(contract.FrameBye, nil)
		if d, err := took(t, done); err != nil || d != 0 {
			t.Fatalf("%v after %v", err, d)
		}
		if s := w.r.Stats(); s.KnownFilters != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, tt := range []struct {
		token, upgrade string
		want           int
	}{{"", contract.LinkProtocol, 401}, {"bad", contract.LinkProtocol, 401}, {"good", "", 426}} {
		req, _ := http.NewRequest(http.MethodGet, "http://"+w.url+contract.LinkPath, nil)
		req.Header.Set("Authorization", "Bearer "+tt.token)
		if tt.upgrade != "" {
			req.Header.Set("Upgrade", tt.upgrade)
			req.Header.Set("Connection", "Upgrade")
		}
		tr := &http.Transport{DisableKeepAlives: true}
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%+v: %d", tt, res.StatusCode)
		}
	}
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "was revoked, but") || !strings.Contains(err.Error(), "may still be accepted") {
		t.Errorf("error %v", err)
	}
}
