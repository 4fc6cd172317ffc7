package proxytemplate

import "github.com/meshgate/meshgate/xds/policy"

// explain returns the template itself: nothing is added to what it says.
func explain(s *policy.Selection) any { return policy.First[Spec](s).Conf }
