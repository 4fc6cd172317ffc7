package sidecar

import (
	"fmt"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/xds/plan"
)

// Check holds the sets that Plan has made against a plan from nothing, byte for
// byte. It costs a whole plan and is for tests and for operators who suspect a
// mistake. Proxies that hold an older version of something that failed are passed
// over.
func (p *Planner) Check() error {
	fresh := New(p.policies, p.outside, p.log, p.state, p.kinds[len(DestinationKinds()):]...)
	maps.Copy(fresh.secured, p.secured)
	maps.Copy(fresh.bare, p.bare)
	for name, x := range p.proxies {
		if fresh.Join(name) && x.begun {
			fresh.Begun(name)
		}
	}
	fresh.Plan()
	for _, name := range slices.Sorted(maps.Keys(p.proxies)) {
		if slices.ContainsFunc(p.Failures(name), func(f plan.Failure) bool { return f.Kept }) {
			continue
		}
		have, want := p.Set(name), fresh.Set(name)
		if want == nil && fresh.proxies[name] == nil {
			continue // its dataplane is gone; it keeps what it has
		}
		if fresh.Awaits(name) != "" {
			continue // it keeps or refuses what it could not begin with
		}
		if err := plan.Differ(have, want); err != nil {
			return fmt.Errorf("proxy %s: %w", name, err)
		}
	}
	return nil
}
