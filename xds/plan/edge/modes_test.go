package edge

import (
	"regexp"
	"strings"
	"testing"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"

	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestGoldenModes plans testdata/modes.yaml for the modes of the filter other than the module.
// Envoy judges what asks an authorization service. No Envoy with a filter for Go is there, so
// that configuration is held against the rules of its messages, and filter/golang reads it.
func TestGoldenModes(t *testing.T) {
	for _, mode := range []contract.Mode{contract.ModeExtAuthz, contract.ModeGolang} {
		t.Run(mode.String(), func(t *testing.T) {
			params := testParams
			params.Filter = mode
			result := NewPlanner(params).Plan(loadWorld(t, "testdata/modes.yaml").state())
			golden.Compare(t, "testdata/modes."+mode.String()+".golden.yaml", render(t, result))
			plantest.Admitted(t, result.Set)
			if mode == contract.ModeExtAuthz {
				accepted(t, result.Set)
			}
		})
	}
}

// TestRefusedChainsNameTheirRoutes: a chain that an authorization service cannot carry out
// refuses the requests of its route, and the failure says which one and what to do.
func TestRefusedChainsNameTheirRoutes(t *testing.T) {
	params := testParams
	params.Filter = contract.ModeExtAuthz
	result := NewPlanner(params).Plan(loadWorld(t, "testdata/modes.yaml").state())
	if len(result.Failures) != 1 {
		t.Fatalf("failures: %v", result.Failures)
	}
	f := result.Failures[0]
	for _, want := range []string{"00000003-0000-4000-8000-000000000003", "filter.mode extauthz", "hides credentials in bodies"} {
		if !strings.Contains(f.Err.Error(), want) {
			t.Errorf("%s: %v lacks %q", f.Cell, f.Err, want)
		}
	}
	if f.Cell != "route 00000002-0000-4000-8000-000000000003" {
		t.Errorf("the failure is of %s", f.Cell)
	}
}

// TestListenerRemovesWhatIsReserved holds the header changes of a listener, where the filter
// leaves them to it, against the list of what clients may not say. Every spelling is removed
// that the module would remove, and no other header of the list.
func TestListenerRemovesWhatIsReserved(t *testing.T) {
	for _, mode := range []contract.Mode{contract.ModeExtAuthz, contract.ModeGolang} {
		t.Run(mode.String(), func(t *testing.T) { removesReserved(t, mode) })
	}
}

func removesReserved(t *testing.T, mode contract.Mode) {
	t.Helper()
	params := testParams
	params.Filter = mode
	for _, l := range NewPlanner(params).Plan(newWorld(t).state()).Set.All(resource.Listener) {
		config := new(listenerv3.Listener)
		load(t, l, config)
		for _, c := range config.FilterChains {
			manager := new(hcmv3.HttpConnectionManager)
			if err := c.Filters[len(c.Filters)-1].GetTypedConfig().UnmarshalTo(manager); err != nil {
				t.Fatal(err)
			}
			early := new(earlyv3.HeaderMutation)
			if err := manager.EarlyHeaderMutationExtensions[0].TypedConfig.UnmarshalTo(early); err != nil {
				t.Fatal(err)
			}
			removes := removerOf(early.Mutations)
			for _, r := range contract.ReservedHeaders {
				name := r.Name
				if r.Family {
					name += "a-b"
				}
				for _, spelling := range []string{name, strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1), name[:len(name)-1] + "_" + name[len(name)-1:]} {
					if want := contract.IsReserved([]byte(spelling), false); removes(spelling) != want {
						t.Errorf("%s %s: %s is removed: %t", l.Name, c.Name, spelling, !want)
					}
				}
			}
			for _, other := range []string{"authorization", "x-consumer", "xx-consumer-id", "x-request-id", "x-real-ip", "x-forwarded-proto"} {
				if removes(other) {
					t.Errorf("%s is removed", other)
				}
			}
		}
	}
}

// removerOf reports which headers are removed by patterns.
func removerOf(mutations []*mutationv3.HeaderMutation) func(name string) bool {
	var patterns []*regexp.Regexp
	for _, m := range mutations {
		if text := m.GetRemoveOnMatch().GetKeyMatcher().GetSafeRegex().GetRegex(); text != "" {
			patterns = append(patterns, re2("^(?:"+text+")$"))
		}
	}
	return func(name string) bool {
		for _, p := range patterns {
			if p.MatchString(name) {
				return true
			}
		}
		return false
	}
}
