package plan

import (
	"fmt"

	"github.com/meshgate/meshgate/xds/resource"
)

// Differ compares a set that was planned step by step with one that was planned from nothing,
// byte for byte. The error names the first difference.
func Differ(have, want *resource.Set) error {
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
		return fmt.Errorf("the generations of secrets are %v, a plan from nothing makes %v", generations(have), generations(want))
	}
	return nil
}

func generations(s *resource.Set) map[string]string {
	out := map[string]string{}
	for _, n := range s.Secrets() {
		out[n], _ = s.Generation(n)
	}
	return out
}
