package meshca

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/alarm"
)

// TestRotationOfClockThatIsCorrected: a pair that is out of time by a clock that is wrong is
// taken within a minute after the clock was set right.
func TestRotationOfClockThatIsCorrected(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"behind": -100 * time.Hour, "ahead": 100 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				var off atomic.Int64
				rt.now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
				old, next := rt.pair(), rt.pair()
				rt.builtin("m", "a")
				rt.ask("m", old)
				rt.confirmAll("m", "a")
				off.Store(int64(wrong))
				rt.ask("m", next)
				rt.expect("m", old, old)
				off.Store(0)
				time.Sleep(alarm.Slice)
				synctest.Wait()
				rt.expect("m", old, old, next)
			})
		})
	}
}

// TestRotationOfARootThatExpiresWhileHeld: a root whose time is over before every proxy has
// confirmed it signs nothing.
func TestRotationOfARootThatExpiresWhileHeld(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		cert, key, err := GenerateRoot("m", "ca", &mesh.AuthorityConf{CACert: &mesh.CACert{Expiration: "1h"}})
		rt.must(err)
		old, short := rt.pair(), &identity.KeyPair{Certificate: cert, Key: key}
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		rt.ask("m", short)
		rt.expect("m", old, old, short)
		time.Sleep(2 * time.Hour)
		rt.confirmAll("m", "a")
		rt.expect("m", old, old, short)
	})
}
