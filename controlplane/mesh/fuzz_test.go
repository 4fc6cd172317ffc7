package mesh_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// FuzzDocuments: checking any document does not panic, completing it twice is the same as
// once, and it survives being written and read.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"mtls":{"enabledBackend":"a","backends":[{"name":"a","type":"builtin","mode":1,"conf":{"ca_cert":{"RSAbits":"2048"}}}]},"metrics":{"backends":[{"type":"prometheus","conf":{"skipMTLS":true,"aggregate":[1]}}]}}`))
	f.Add([]byte(`{"networking":{"address":"::","gateway":{"type":"BUILTIN"},"inbound":[{"port":1,"tags":{"":""},"serviceProbe":{"interval":"1s","tcp":{}}}],"outbound":[{"service":"a"}],"admin":{"port":1}},"probes":{"endpoints":[{}]}}`))
	f.Add([]byte(`{"tracing":{"backends":[{"type":"datadog","conf":{"port":1e300}},{"type":"zipkin","conf":{"url":"http://[::1"}},{"type":"opentelemetry","conf":{"endpoint":"a:1","x":1}}]},"logging":{"backends":[{"type":"tcp","conf":{"address":"::"}}]},"data":"AA=="}`))
	f.Add([]byte(`{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"listeners":[{"port":1,"protocol":4,"tls":{"mode":1,"certificates":[{"secret":"a"}]}}],"http":{"rules":[{"matches":[{"path":{"match":2}}],"filters":[{"redirect":{"port":1,"path":{"replaceFull":""}}},{"mirror":{}},{"rewrite":{"replacePrefixMatch":"/"}}],"backends":[{}]}]},"tcp":{"rules":[{}]}}}`))
	kinds := []*model.Kind{
		mesh.Meshes, mesh.Dataplanes, mesh.Secrets, mesh.Zones, mesh.ZoneIngresses, mesh.ZoneEgresses, mesh.MeshGateways, mesh.MeshGatewayRoutes,
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, k := range kinds {
			_, spec, err := model.DecodeDocument(k, body)
			if err != nil {
				if !fault.Is(err, fault.Invalid) {
					t.Fatal(err)
				}
				continue
			}
			written := func() string {
				if k.Document.Default != nil {
					k.Document.Default(spec)
				}
				b, err := model.EncodeDocument(&model.Resource{Kind: k, Spec: spec})
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			first := written()
			if second := written(); first != second {
				t.Errorf("completing twice: %s", cmp.Diff(first, second))
			}
			if k.Document.Validate != nil {
				k.Document.Validate(spec)
			}
			_, again, err := model.DecodeDocument(k, []byte(first))
			if err != nil {
				t.Fatalf("%s: %v", first, err)
			}
			if diff := cmp.Diff(spec, again); diff != "" {
				t.Errorf("not stable: %s", diff)
			}
		}
	})
}
