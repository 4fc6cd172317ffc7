package healthcheck

import "github.com/meshgate/meshgate/xds/policy"

func explain(s *policy.Selection) any { c := effective(s); return &c }
