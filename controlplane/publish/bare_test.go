package publish

import (
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestBareByAllItsStreams: a proxy has no filter only if all its streams say so. An
// additional stream of an attacker with a stolen token must not remove the checks from a
// proxy that has the filter.
func TestBareByAllItsStreams(t *testing.T) {
	betweenScopes(t, func(_ *testing.T, b *between) { b.demand(model.DefaultControlPlane) }, func(t *testing.T, b *between) {
		stream := func(bare bool) (end func()) {
			t.Helper()
			end, err := b.loop.Connect(t.Context(), "m.web-1", bare)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return end
		}
		proxy := stream(false)
		b.expect("with its filter", "m.web-1", "checks")
		thief, second := stream(true), stream(true)
		b.expect("with streams of a thief", "m.web-1", "checks")
		thief()
		again := stream(false)
		proxy()
		b.expect("after it has come back", "m.web-1", "checks")
		again()
		b.expect("with nobody but the thief", "m.web-1", "refuses")
		proxy = stream(false)
		b.expect("once it is there again", "m.web-1", "checks")
		second()
		b.expect("without the thief", "m.web-1", "checks")
		proxy()
		alone := stream(true)
		b.expect("an Envoy without the filter", "m.web-1", "refuses")
		alone()
	})
}
