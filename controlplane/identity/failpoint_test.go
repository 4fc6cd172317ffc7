package identity

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// internal says that an error, if there is one, is the control plane's own. A code
// that blames a token or a mesh would be taken as final by who is told.
func internal(t *testing.T, err error) error {
	t.Helper()
	if err != nil && fault.CodeOf(err) != fault.Internal {
		t.Errorf("a failure of the store is said to be %s: %v", fault.CodeOf(err), err)
	}
	return err
}

// TestEveryStoreCallFailsOnce sweeps over the calls of the store that keys, tokens
// and certificates need.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, points *storetest.Failpoints) (act func() error){
		"the authority": func(t *testing.T, points *storetest.Failpoints) func() error {
			return func() error {
				_, err := OpenAuthority(t.Context(), points, newClock().now)
				return err
			}
		},
		"the certificate of listeners": func(t *testing.T, points *storetest.Failpoints) func() error {
			a := openAuthority(t, points, newClock())
			return func() error {
				_, err := a.Listener(t.Context(), []string{"localhost"})
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
			fresh := NewDataplaneTokens(points, tt.clock.now)
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
		"the identity of a dataplane": func(t *testing.T, points *storetest.Failpoints) func() error {
			wt := newWorkloadTest(t, points)
			return func() error {
				_, err := wt.Issue(t.Context(), "m", "web")
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.EveryCallFailsOnce(t, func() storetest.Trial {
				points := &storetest.Failpoints{Store: memory(t)}
				act := begin(t, points)
				return storetest.Trial{Points: points, Act: func() error { return internal(t, act()) }}
			})
		})
	}
}

// TestEveryStoreCallForNodeTokensFailsOnce has one store, because the key takes a
// while to make.
func TestEveryStoreCallForNodeTokensFailsOnce(t *testing.T) {
	points := &storetest.Failpoints{Store: memory(t)}
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
				return storetest.Trial{Points: points, Act: func() error { return internal(t, act()) }}
			})
		})
	}
}

// TestEveryStoreCallOfARotationFailsOnce: the first authority of a mesh and the one
// that replaces it come into force whichever call fails, and at no moment is there
// a certificate that its neighbours do not trust.
func TestEveryStoreCallOfARotationFailsOnce(t *testing.T) {
	for name, replaces := range map[string]bool{"the first authority": false, "the next authority": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				storetest.EveryCallFailsOnce(t, func() storetest.Trial {
					points, log := &storetest.Failpoints{Store: memstore.New()}, &storetest.Complaints{}
					rt := unopenedRotationTest(t, log)
					rt.open(points)
					rt.builtin("m", "web")
					first, next := rt.pair(), rt.pair()
					rt.progress.confirm("m", "web", ^uint64(0)) // as soon as it is asked
					if replaces {
						rt.ask("m", first)
					} else {
						next = first
					}
					place(t, points.Store, mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: next.Certificate})
					place(t, points.Store, mesh.Secrets, "m", mesh.BuiltinKey("m", "ca"), &mesh.Secret{Data: next.Key})
					return storetest.Trial{Points: points, Complaints: log, End: rt.close, State: func() string {
						return fmt.Sprint("in force: ", rt.inForce(points.Store, next))
					}, Act: func() error {
						if rt.changed("m"); !rt.inForce(points.Store, next) {
							return errors.New("it is not in force")
						}
						return nil
					}, Served: func() error {
						if rt.noGap(); replaces && len(rt.history.all()) == 0 {
							return fmt.Errorf("nothing is trusted")
						}
						return nil
					}}
				})
			})
		})
	}
}

// inForce reports whether a pair signs in mesh m and nothing else is trusted.
func (rt *rotationTest) inForce(s store.Store, pair *KeyPair) (yes bool) {
	rt.must(s.View(context.Background(), func(r store.Reader) error {
		res, err := r.Get(MeshAuthorities, "m", "m")
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err == nil {
			a := res.Spec.(*MeshAuthority)
			yes = a.Phase == "" && len(a.Previous) == 0 && sameAuthority(&a.Current, pair)
		}
		return err
	}))
	return yes
}
