package all

import (
	"errors"
	"fmt"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// refusal determines whom a policy refuses at inbounds from what the policy adds there. It
// returns an error if the policy declares less than that.
func refusal(p *policy.Policy, selections []*policy.Selection) error {
	if !p.EditsInbounds() {
		return nil
	}
	if p.Refuses == policy.Unsaid {
		return fmt.Errorf("%s edits inbounds and does not say whom it refuses there", p.Kind.Name)
	}
	for _, s := range append(selections, nil) {
		for _, protocol := range policytest.Protocols {
			for _, sealed := range []bool{false, true} {
				before, d := policytest.NewDrafts(protocol, sealed), policytest.NewDrafts(protocol, sealed)
				if err := errors.Join(d.Apply(p, s), d.Callers(p, s), d.Demand(p, s)); err != nil {
					return err
				}
				found := policy.RefusesNobody
				if sealed && (len(d.Inbound.AuthenticatedNetwork) > 0 || judges(d.Inbound.AuthenticatedFilters)) {
					found = policy.RefusesAuthenticated
				}
				if judges(d.Inbound.Filters) || d.Inbound.NoOpaque || !sealed && (len(d.Inbound.AuthenticatedNetwork) > 0 || judges(d.Inbound.AuthenticatedFilters)) ||
					d.InboundRoutes != nil && len(d.InboundRoutes.Host.GetRoutes()) != len(before.InboundRoutes.Host.GetRoutes()) {
					found = policy.RefusesAnybody
				}
				if found > p.Refuses {
					return fmt.Errorf("%s refuses %d at inbounds, and says %d", p.Kind.Name, found, p.Refuses)
				}
			}
		}
	}
	return nil
}

// judges reports whether there are filters that can refuse callers. Fault filters do not
// count: they are for tests and keep nobody out.
func judges(slots draft.Slots) bool {
	for slot, filters := range slots {
		if draft.Slot(slot) != draft.SlotFault && len(filters) > 0 {
			return true
		}
	}
	return false
}

// TestPoliciesSayWhomTheyRefuse: a policy's own declaration decides whether the port behind a
// transparent proxy is closed. A policy that refuses callers must not forget to declare it.
func TestPoliciesSayWhomTheyRefuse(t *testing.T) {
	said := map[policy.Refusal]int{}
	for _, p := range Policies() {
		if err := refusal(p, selections(t, p)); err != nil {
			t.Error(err)
		}
		said[p.Refuses]++
	}
	if said[policy.RefusesNobody] == 0 || said[policy.RefusesAuthenticated] == 0 || said[policy.RefusesAnybody] == 0 {
		t.Errorf("%v: the test does not meet every sort", said)
	}
}

// TestForgottenRefusalsAreFound: a missing declaration is found. A policy without any
// declaration still closes the port.
func TestForgottenRefusalsAreFound(t *testing.T) {
	put := func(slots func(*draft.Inbound) *draft.Slots, slot draft.Slot) func(*draft.Inbound, *policy.Selection) error {
		return func(d *draft.Inbound, _ *policy.Selection) error {
			return slots(d).Put(slot, &hcmv3.HttpFilter{Name: "x"})
		}
	}
	everybody := func(d *draft.Inbound) *draft.Slots { return &d.Filters }
	proved := func(d *draft.Inbound) *draft.Slots { return &d.AuthenticatedFilters }
	network := func(d *draft.Inbound, _ *policy.Selection) error {
		d.AuthenticatedNetwork = append(d.AuthenticatedNetwork, &listenerv3.Filter{Name: "x"})
		return nil
	}
	routes := func(r *draft.Routes, _ *policy.Selection) error {
		r.Host.Routes = r.Host.Routes[:1]
		return nil
	}
	for name, tc := range map[string]struct {
		edits policy.Edits
		least policy.Refusal
	}{
		"a fault":               {policy.Edits{Inbound: put(everybody, draft.SlotFault)}, policy.RefusesNobody},
		"an access filter":      {policy.Edits{Inbound: put(everybody, draft.SlotAccess)}, policy.RefusesAnybody},
		"a limit":               {policy.Edits{Inbound: put(everybody, draft.SlotRateLimit)}, policy.RefusesAnybody},
		"a token filter":        {policy.Edits{Inbound: put(everybody, draft.SlotToken)}, policy.RefusesAnybody},
		"routes that are gone":  {policy.Edits{InboundRoutes: routes}, policy.RefusesAnybody},
		"in clear as well":      {policy.Edits{Inbound: network}, policy.RefusesAnybody},
		"for proved callers":    {policy.Edits{Inbound: sealed(put(proved, draft.SlotAccess))}, policy.RefusesAuthenticated},
		"for proved byte flows": {policy.Edits{Inbound: sealed(network)}, policy.RefusesAuthenticated},
	} {
		for said := policy.Unsaid; said <= policy.RefusesAnybody; said++ {
			p := &policy.Policy{Kind: Policies()[0].Kind, Attachment: policy.ByInbound, Edits: tc.edits, Refuses: said}
			if err := refusal(p, nil); (err == nil) != (said >= tc.least) {
				t.Errorf("%s, which says %d: %v", name, said, err)
			}
			if want := said == policy.Unsaid || said == policy.RefusesAnybody; p.Guards() != want {
				t.Errorf("%s, which says %d: it guards: %t", name, said, !want)
			}
		}
	}
	if p := (&policy.Policy{Edits: policy.Edits{OutboundRoutes: routes}}); p.Guards() || refusal(p, nil) != nil {
		t.Error("a policy of outbounds guards inbounds")
	}
}

// sealed returns an edit that runs only with mutual TLS.
func sealed(edit func(*draft.Inbound, *policy.Selection) error) func(*draft.Inbound, *policy.Selection) error {
	return func(d *draft.Inbound, s *policy.Selection) error {
		if !d.MutualTLS {
			return nil
		}
		return edit(d, s)
	}
}
