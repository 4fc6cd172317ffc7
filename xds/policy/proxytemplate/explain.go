package proxytemplate

import "github.com/meshgate/meshgate/xds/policy"

// explain returns the configuration of the template that was chosen.
func explain(s *policy.Selection) any { return policy.First[Spec](s).Conf }
