package trafficroute

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// explain completes the load balancer. It shows destinations as they are given, because what
// they resolve to depends on the tags of the outbound. It conceals what is secret, because it is for
// everybody who may see which policies apply.
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
	c.HTTP = slices.Clone(c.HTTP)
	for i := range c.HTTP {
		c.HTTP[i].Modify = c.HTTP[i].Modify.concealed()
	}
	return &c
}

// concealed returns a copy without the values of headers that requests get.
func (m *Modify) concealed() *Modify {
	if m == nil || m.RequestHeaders == nil {
		return m
	}
	out, headers := *m, *m.RequestHeaders
	headers.Add = slices.Clone(headers.Add)
	for i := range headers.Add {
		headers.Add[i].Value = model.Concealed
	}
	out.RequestHeaders = &headers
	return &out
}
