package meshca

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestEveryStoreCallFailsOnce makes each call of the store that the certificate of a
// dataplane needs fail once.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	storetest.EveryCallFailsOnce(t, func() storetest.Trial {
		points := &storetest.Failpoints{Store: identitytest.Memory(t)}
		wt := newWorkloadTest(t, points)
		return storetest.Trial{Points: points, Act: func() error {
			_, err := wt.Issue(t.Context(), "m", "web")
			return identitytest.Internal(t, err)
		}}
	})
}

// TestEveryStoreCallOfARotationFailsOnce: the first authority of a mesh and its successor
// come into force no matter which call fails, and at no time is there a certificate that its
// neighbours do not trust.
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
					storetest.Place(t, points.Store, mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: next.Certificate})
					storetest.Place(t, points.Store, mesh.Secrets, "m", mesh.BuiltinKey("m", "ca"), &mesh.Secret{Data: next.Key})
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
func (rt *rotationTest) inForce(s store.Store, pair *identity.KeyPair) (yes bool) {
	rt.must(s.View(context.Background(), func(r store.Reader) error {
		res, err := r.Get(Authorities, "m", "m")
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err == nil {
			a := res.Spec.(*Authority)
			yes = a.Phase == "" && len(a.Previous) == 0 && sameAuthority(&a.Current, pair)
		}
		return err
	}))
	return yes
}
