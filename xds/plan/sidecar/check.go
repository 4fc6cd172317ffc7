package sidecar

import (
	"fmt"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// Check holds the sets that Plan has made against a plan from nothing, byte for
// byte. It costs a whole plan and is for tests and for operators who suspect a
// mistake. Proxies that hold an older version of something that failed are passed
// over.
func (p *Planner) Check() error {
	fresh := New(p.policies, p.outside, p.state)
	maps.Copy(fresh.secured, p.secured)
	maps.Copy(fresh.bare, p.bare)
	for name := range p.proxies {
		fresh.Join(name)
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
		if err := differ(have, want); err != nil {
			return fmt.Errorf("proxy %s: %w", name, err)
		}
	}
	return nil
}

func differ(have, want *resource.Set) error {
	for _, t := range resource.Types {
		d := want.Diff(have, t)
		for _, r := range d.Changed {
			return fmt.Errorf("%s %s is not what a plan from nothing makes", t, r.Name)
		}
		for _, name := range d.Removed {
			return fmt.Errorf("%s %s is left over", t, name)
		}
	}
	if !have.Equal(want) {
		return fmt.Errorf("the generations of secrets are %v, a plan from nothing makes %v", secretsOf(have), secretsOf(want))
	}
	return nil
}

func secretsOf(s *resource.Set) map[string]string {
	out := map[string]string{}
	for _, n := range s.Secrets() {
		out[n], _ = s.Generation(n)
	}
	return out
}
