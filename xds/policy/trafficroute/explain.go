package trafficroute

import "github.com/meshgate/meshgate/xds/policy"

// explain completes the load balancer. It shows destinations as they are given, because what
// they resolve to depends on the tags of the outbound.
func explain(s *policy.Selection) any {
	var c Conf
	if given := policy.First[Spec](s).Conf; given != nil {
		c = *given
	}
	lb := balancer(s)
	switch {
	case lb == LoadBalancer{}:
		lb.RoundRobin = &struct{}{}
	case lb.LeastRequest != nil && lb.LeastRequest.ChoiceCount == 0:
		lb.LeastRequest = &LeastRequest{ChoiceCount: defaultChoices}
	}
	c.LoadBalancer = &lb
	return &c
}
