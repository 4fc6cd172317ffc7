package trafficlog

import "github.com/meshgate/meshgate/xds/policy"

// explain shows no default backend, because that is the mesh's.
func explain(s *policy.Selection) any { return &Conf{Backend: policy.First[Spec](s).backend()} }
