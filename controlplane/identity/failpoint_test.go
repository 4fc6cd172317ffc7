package identity

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestEveryStoreCallFailsOnce makes each call of the store that keys, tokens and
// certificates need fail once.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, points *storetest.Failpoints) (act func() error){
		"the authority": func(t *testing.T, points *storetest.Failpoints) func() error {
			return func() error {
				_, err := OpenAuthority(t.Context(), points, identitytest.NewClock().Now)
				return err
			}
		},
		"the certificate of listeners": func(t *testing.T, points *storetest.Failpoints) func() error {
			a := openAuthority(t, points, identitytest.NewClock())
			return func() error {
				_, err := a.Listener(t.Context(), []string{"localhost"})
				return err
			}
		},
		"the keys of the audit log": func(t *testing.T, points *storetest.Failpoints) func() error {
			return func() error {
				keys, err := OpenAuditKeys(t.Context(), points)
				if err == nil {
					_, err = keys.Withdraw(t.Context(), keyGate(points))
				}
				return err
			}
		},
		"a dataplane token": func(t *testing.T, points *storetest.Failpoints) func() error {
			tt := tokenTestOn(t, points)
			return func() error {
				_, err := tt.Issue(t.Context(), DataplaneTokenRequest{Mesh: "m"})
				return err
			}
		},
		"a dataplane that shows its token": func(t *testing.T, points *storetest.Failpoints) func() error {
			tt := tokenTestOn(t, points)
			token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
			fresh := NewDataplaneTokens(points, tt.clock.Now)
			return func() error {
				_, err := fresh.Authenticate(t.Context(), "m.web", token)
				return err
			}
		},
		"a dataplane that is not stored": func(t *testing.T, points *storetest.Failpoints) func() error {
			tt := tokenTestOn(t, points)
			token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
			return func() error { return tt.CheckProxy(t.Context(), token, "m", "new", nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.EveryCallFailsOnce(t, func() storetest.Trial {
				points := &storetest.Failpoints{Store: identitytest.Memory(t)}
				act := begin(t, points)
				return storetest.Trial{Points: points, Act: func() error { return identitytest.Internal(t, act()) }}
			})
		})
	}
}

// TestEveryStoreCallForNodeTokensFailsOnce uses a single store, because making the key takes
// a while.
func TestEveryStoreCallForNodeTokensFailsOnce(t *testing.T) {
	points := &storetest.Failpoints{Store: identitytest.Memory(t)}
	tokens, err := OpenTokens(t.Context(), points, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, act := range map[string]func() error{
		"a start": func() error {
			_, err := OpenTokens(t.Context(), points, time.Now)
			return err
		},
		"a gateway that shows its token": func() error { return tokens.Authenticate(t.Context(), "cp/default/gw", token) },
		"a gateway that renews its token": func() error {
			_, err := tokens.Renew(t.Context(), token)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.EveryCallFailsOnce(t, func() storetest.Trial {
				return storetest.Trial{Points: points, Act: func() error { return identitytest.Internal(t, act()) }}
			})
		})
	}
}
