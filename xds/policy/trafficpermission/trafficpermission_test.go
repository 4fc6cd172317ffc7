package trafficpermission

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	const sources, destinations = `"sources":[{"match":{"mesh.io/service":"web"}}]`, `"destinations":[{"match":{"mesh.io/service":"backend"}}]`
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{`valid`, sources + `,` + destinations, nil},
		{`any tag`, `"sources":[{"match":{"team":"a"}}],"destinations":[{"match":{"version":"*"}}]`, nil},
		{`nothing`, `"sources":[]`, []string{`sources: must have at least one element`, `destinations: must have at least one element`}},
		{`no tags`, `"sources":[{"match":{}}],` + destinations, []string{`sources[0].match: must have at least one tag`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"TrafficPermission","mesh":"demo","name":"x",`+c.fields+`}`))
			Kind.Document.Default(spec)
			var got []string
			for _, v := range Kind.Document.Validate(spec) {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWithoutPolicy: with mutual TLS nobody may call without a policy. Without mutual TLS there
// are no rules.
func TestWithoutPolicy(t *testing.T) {
	for _, protocol := range policytest.Protocols {
		plain, sealed := policytest.NewDrafts(protocol, false), policytest.NewDrafts(protocol, true)
		for _, d := range []*policytest.Drafts{plain, sealed} {
			if err := d.Apply(Policy, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(plain.Inbound.AuthenticatedNetwork) + len(plain.Inbound.AuthenticatedFilters.Filters()); n > 0 {
			t.Errorf("%s: %d filters without mutual TLS", protocol, n)
		}
		if n := len(sealed.Inbound.AuthenticatedNetwork) + len(sealed.Inbound.AuthenticatedFilters.Filters()); n != 1 {
			t.Errorf("%s: %d filters, want 1", protocol, n)
		}
		if r := sealed.InboundRoutes; r != nil && r.Host.GetTypedPerFilterConfig()["envoy.filters.http.rbac"] == nil {
			t.Errorf("%s: no rules in the routes", protocol)
		}
	}
}
