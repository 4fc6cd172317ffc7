package proxytemplate

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

const cluster = `"'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: c"`

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	invalid := func(path, why string) string { return path + ": native Envoy resource is not valid: " + why }
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"nothing", ``, nil},
		{"selectors", `"selectors":[{"match":{"team":"a"}},{"match":{}}]`, []string{
			`selectors[0].match: mandatory tag "mesh.io/service" is missing`,
			`selectors[1].match: must have at least one tag`, `selectors[1].match: mandatory tag "mesh.io/service" is missing`,
		}},
		{"imports", `"conf":{"imports":["","default-proxy","x"]}`, []string{
			`conf.imports[0]: cannot be empty`,
			`conf.imports[2]: profile not found. Available profiles: default-proxy,egress-proxy,gateway-proxy,ingress-proxy`,
		}},
		{"empty resource", `"conf":{"resources":[{}]}`, []string{`conf.resources[0].name: cannot be empty`, `conf.resources[0].version: cannot be empty`, `conf.resources[0].resource: cannot be empty`}},
		{"no type", resource(`"name: c"`), []string{invalid(`conf.resources[0].resource`, `it has no @type`)}},
		{"no name", resource(`"'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster"`), []string{invalid(`conf.resources[0].resource`, `it has no name`)}},
		{"another type", resource(`"'@type': type.googleapis.com/envoy.config.core.v3.Node"`), []string{invalid(`conf.resources[0].resource`, `envoy.config.core.v3.Node is neither a Cluster nor a Listener nor a RouteConfiguration`)}},
		{"no socket", resource(`"'@type': type.googleapis.com/envoy.config.listener.v3.Listener\nname: l\naddress: {pipe: {path: /tmp/x}}"`), []string{invalid(`conf.resources[0].resource`, `a listener needs a socket_address`)}},
		{"twice", `"conf":{"resources":[{"name":"a","version":"1","resource":` + cluster + `},{"name":"b","version":"1","resource":` + cluster + `}]}`, []string{invalid(`conf.resources[1].resource`, `another one is the Cluster c too`)}},
		{"modifications", `"conf":{"modifications":[{},{"cluster":{"operation":"addFirst"},"listener":{"operation":"remove"}},{"httpFilter":{"operation":"add"}}]}`, []string{
			`conf.modifications[0]: must have exactly one of cluster, listener, networkFilter, httpFilter and virtualHost`,
			`conf.modifications[1].cluster.operation: invalid operation. Available operations: "add", "patch", "remove"`,
			`conf.modifications[1]: must have exactly one of cluster, listener, networkFilter, httpFilter and virtualHost`,
			`conf.modifications[2].httpFilter.operation: invalid operation. Available operations: "addFirst", "addLast", "addBefore", "addAfter", "patch", "remove"`,
		}},
		{"matches", `"conf":{"modifications":[{"cluster":{"operation":"add","match":{"name":"x"},"value":"name: x"}},
			{"httpFilter":{"operation":"addBefore","value":"name: x"}},{"networkFilter":{"operation":"addAfter","match":{"origin":"inbound"},"value":"name: x"}},
			{"httpFilter":{"operation":"patch","value":"name: x"}}]}`, []string{
			`conf.modifications[0].cluster.match: cannot be defined`,
			`conf.modifications[1].httpFilter.match.name: cannot be empty. You need to pick a filter before which this one will be added`,
			`conf.modifications[2].networkFilter.match.name: cannot be empty. You need to pick a filter after which this one will be added`,
			`conf.modifications[3].httpFilter.match.name: cannot be empty`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := `{"type":"ProxyTemplate","mesh":"demo","name":"x"`
			if c.fields != "" {
				text += "," + c.fields
			}
			_, spec := policytest.Decode(t, Kind, []byte(text+`}`))
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

func resource(text string) string {
	return `"conf":{"resources":[{"name":"c","version":"1","resource":` + text + `}]}`
}

// TestCodeOfItsOwnIsRefused: an extension that runs code is not known, so neither a resource nor
// a modification can have it. The error names its type.
func TestCodeOfItsOwnIsRefused(t *testing.T) {
	const lua = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"
	_, spec := policytest.Decode(t, Kind, []byte(`{"type":"ProxyTemplate","mesh":"demo","name":"x","conf":{"modifications":[
		{"httpFilter":{"operation":"addFirst","value":"name: x\ntyped_config: {'@type': `+lua+`, inline_code: x}"}}]}}`))
	vs := Kind.Document.Validate(spec)
	if len(vs) != 1 || !strings.Contains(vs[0].Message, lua) {
		t.Errorf("%+v", vs)
	}
}

// TestWhatAPatchBreaksIsAnError: the planner closes what it gets an error for.
func TestWhatAPatchBreaksIsAnError(t *testing.T) {
	s := policytest.Select(t, Policy, []byte(`
type: ProxyTemplate
mesh: demo
name: x
conf:
  imports: [default-proxy]
  modifications:
  - cluster: {operation: patch, value: "lb_subset_config: {fallback_policy: 9}"}`))
	f := &draft.Finished{Origin: draft.OriginOutbound, Proto: &clusterv3.Cluster{Name: "c"}}
	if err := patch(f, s); err == nil {
		t.Errorf("accepted: %v", f.Proto)
	}
}

// TestMerge: what is set replaces, lists grow, messages are merged, and a duration is one value.
func TestMerge(t *testing.T) {
	into := &clusterv3.Cluster{Name: "c", ConnectTimeout: &durationpb.Duration{Nanos: 5e8}, AltStatName: "a", LbSubsetConfig: &clusterv3.Cluster_LbSubsetConfig{
		FallbackPolicy: clusterv3.Cluster_LbSubsetConfig_ANY_ENDPOINT, SubsetSelectors: []*clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector{{Keys: []string{"a"}}},
	}}
	over := &clusterv3.Cluster{ConnectTimeout: &durationpb.Duration{Seconds: 5}, LbSubsetConfig: &clusterv3.Cluster_LbSubsetConfig{
		SubsetSelectors: []*clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector{{Keys: []string{"b"}}},
	}}
	if err := merge(into.ProtoReflect(), over.ProtoReflect()); err != nil {
		t.Fatal(err)
	}
	want := &clusterv3.Cluster{Name: "c", ConnectTimeout: &durationpb.Duration{Seconds: 5}, AltStatName: "a", LbSubsetConfig: &clusterv3.Cluster_LbSubsetConfig{
		FallbackPolicy: clusterv3.Cluster_LbSubsetConfig_ANY_ENDPOINT, SubsetSelectors: []*clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector{{Keys: []string{"a"}}, {Keys: []string{"b"}}},
	}}
	if diff := cmp.Diff(want, into, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
