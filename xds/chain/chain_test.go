package chain

import (
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
)

func plugin(name, config string) *view.Plugin {
	return &view.Plugin{Entry: view.Entry[gateway.Plugin]{ID: "p", Spec: &gateway.Plugin{Name: name, Config: []byte(config)}}}
}

// TestEncode: the filter reads exactly what was encoded. Configuration that it could not read
// causes an error.
func TestEncode(t *testing.T) {
	bob := &view.Consumer{ID: "c", Spec: &gateway.Consumer{Username: "bob", CustomID: "7"}}
	for _, c := range []struct {
		name     string
		attached Attached
		want     *contract.OAuth2
	}{
		{"plain", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"X-Token","global_credentials":true,"hide_credentials":true,"realm":"r"}`)},
			&contract.OAuth2{Header: "x-token", Global: true, HideCredentials: true, Realm: "r", InBody: true}},
		{"strict", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"a","profile":"oauth2.1"}`)},
			&contract.OAuth2{Header: "a", Endpoints: true, OneConsumer: true}},
		{"strict with tokens in bodies", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"a","profile":"oauth2.1","access_token_in_body":true}`)},
			&contract.OAuth2{Header: "a", Endpoints: true, OneConsumer: true, InBody: true}},
		{"without tokens in bodies", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"a","access_token_in_body":false}`)},
			&contract.OAuth2{Header: "a"}},
		{"anonymous", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"a","anonymous":"bob"}`), Anonymous: bob},
			&contract.OAuth2{Header: "a", InBody: true, Anonymous: &contract.Anonymous{Configured: "bob", Consumer: &contract.Consumer{ID: "c", Username: "bob", CustomID: "7"}}}},
		{"anonymous is missing", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"a","anonymous":"bob"}`)},
			&contract.OAuth2{Header: "a", InBody: true, Anonymous: &contract.Anonymous{Configured: "bob"}}},
		{"no header", Attached{Plugin: plugin("oauth2", `{}`)}, nil},
		{"unknown field", Attached{Plugin: plugin("oauth2", `{"auth_header_name":"a","x":1}`)}, nil},
		{"unknown plugin", Attached{Plugin: plugin("other", `{}`)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := Encode(contract.Chain{Route: "r", Service: "s"}, [MaxPlugins]Attached{c.attached})
			if c.want == nil {
				if err == nil {
					t.Errorf("encoded %s", body)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := contract.ParseChain(body)
			if err != nil {
				t.Fatal(err)
			}
			want := &contract.Chain{Route: "r", Service: "s", Plugins: []contract.Plugin{{ID: "p", OAuth2: c.want}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeNothing: a route without plugins has no chain.
func TestEncodeNothing(t *testing.T) {
	if body, err := Encode(contract.Chain{Route: "r", Service: "s"}, [MaxPlugins]Attached{}); body != nil || err != nil {
		t.Errorf("encoded %s, %v", body, err)
	}
}

// TestPerRouteCarriesTheChain checks that the chain reaches the filter in the listener byte
// for byte.
func TestPerRouteCarriesTheChain(t *testing.T) {
	per, err := PerRoute([]byte(`{"x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	var body wrapperspb.StringValue
	if err := per.GetFilterConfig().UnmarshalTo(&body); err != nil || body.GetValue() != `{"x":1}` {
		t.Errorf("carried %q, %v", body.GetValue(), err)
	}
	f, err := Filter(contract.ForwardingNone)
	if err != nil {
		t.Fatal(err)
	}
	var installed filterv3.DynamicModuleFilter
	if err := f.GetTypedConfig().UnmarshalTo(&installed); err != nil {
		t.Fatal(err)
	}
	if f.GetName() != contract.FilterName || installed.GetFilterName() != per.GetFilterName() {
		t.Errorf("filter %s runs %s, routes configure %s", f.GetName(), installed.GetFilterName(), per.GetFilterName())
	}
}
