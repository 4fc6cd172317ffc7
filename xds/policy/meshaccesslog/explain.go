package meshaccesslog

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/logging"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// explain shows the rules for callers, and for whatever is called.
func explain(s *policy.Selection) any {
	return map[string][]policy.Rule{"from": rules(s, policy.Site{Side: policy.Callers}), "to": target.CallerRules(target.Entries(s.Policies, to), target.Last[Conf])}
}

// rules show what comes of the policies for the callers of an inbound, and for a called service.
func rules(s *policy.Selection, at policy.Site) []policy.Rule {
	switch at.Side {
	case policy.Callers:
		return target.RuleFor(target.Entries(s.Policies, from), mesh.Tags{}, target.Last[Conf])
	case policy.Destinations:
		return target.RuleFor(target.Entries(s.Policies, to), called(at.Service), target.Last[Conf])
	}
	return nil
}

func (o *OpenTelemetry) collector() (logging.Collector, error) {
	c, wrong := logging.CollectorAt(o.Endpoint)
	if wrong != "" {
		return c, errors.New("the endpoint " + wrong)
	}
	return c, nil
}
