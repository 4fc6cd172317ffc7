package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// check decodes, completes and validates a document as writers do.
func check(t *testing.T, k *model.Kind, body string) (any, []string) {
	t.Helper()
	_, spec, err := model.DecodeDocument(k, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if k.Document.Default != nil {
		k.Document.Default(spec)
	}
	return spec, lines(k.Document.Validate(spec))
}

type documentCase struct {
	name, body string
	want       []string
}

func runDocuments(t *testing.T, k *model.Kind, cases []documentCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, got := check(t, k, tc.body)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func inbound(fields string) string {
	if !strings.Contains(fields, `"tags"`) {
		fields += `,"tags":{"mesh.io/service":"web"}`
	}
	return `{"networking":{"address":"192.168.0.1","inbound":[{` + fields + `}]}}`
}

func outbound(fields string) string {
	return `{"networking":{"address":"192.168.0.1","inbound":[{"port":80,"servicePort":8080,"tags":{"mesh.io/service":"web"}}],"outbound":[{` + fields + `}]}}`
}

func gateway(kind, fields string) string {
	return `{"networking":{"address":"192.168.0.1","gateway":{` + kind + `"tags":{"mesh.io/service":"edge"}}` + fields + `}`
}

func TestDataplaneValidation(t *testing.T) {
	const (
		port    = "port must be in the range [1, 65535]"
		differ  = "networking.inbound[0].serviceAddress: serviceAddress and servicePort has to differ from address and port"
		address = "networking.address: address has to be valid IP address or domain name"
		in      = `"inbound":[{"port":80,"tags":{"mesh.io/service":"web"}}]`
	)
	runDocuments(t, mesh.Dataplanes, []documentCase{
		{"accepted", `{"networking":{"address":"192.168.0.1","advertisedAddress":"web.example.com","inbound":[{"port":11011,"servicePort":11012,
			"tags":{"mesh.io/service":"backend","mesh.io/protocol":"http"}}],"outbound":[{"port":33033,"tags":{"mesh.io/service":"database"}},
			{"port":44044,"service":"redis"}],"transparentProxying":{"redirectPortInbound":15006,"redirectPortOutbound":15001,"directAccessServices":["*","database"],
			"reachableServices":["database"],"ipFamilyMode":"IPv4"},"admin":{"port":9901}},"metrics":{"type":"prometheus"},
			"probes":{"port":9000,"endpoints":[{"inboundPort":11012,"inboundPath":"/","path":"/11012/"},{"inboundPort":11011,"inboundPath":"/a.b/%20c","path":"/x"}]}}`, nil},
		{"what no proxy does", `{"networking":{"address":"192.168.0.1",` + in + `,"outbound":[{"port":1,"backendRef":{"kind":"MeshService","name":"x","port":80}}],
			"transparentProxying":{"redirectPortOutbound":15001,"reachableBackends":{"refs":[{"kind":"MeshService","name":"x"}]}}}}`, []string{
			"networking.outbound[0].backendRef: is not supported: there are no such resources. Name the service by tags",
			"networking.transparentProxying.reachableBackends: is not supported: there are no such resources. Use reachableServices",
		}},
		{"nothing", `{}`, []string{"networking: must be defined"}},
		{"neither inbound nor gateway", `{"networking":{"address":"1.1.1.1"}}`, []string{"networking: has to contain at least one inbound interface or gateway"}},
		{"no address", `{"networking":{` + in + `}}`, []string{"networking.address: address can't be empty"}},
		{"unspecified", `{"networking":{"address":"0.0.0.0",` + in + `}}`, []string{"networking.address: must not be 0.0.0.0 or ::"}},
		{"unspecified 6", `{"networking":{"address":"::",` + in + `}}`, []string{"networking.address: must not be 0.0.0.0 or ::"}},
		{"no address at all", `{"networking":{"address":"..>_<..",` + in + `}}`, []string{address}},
		{"mistyped address", `{"networking":{"address":"192.168.0.256",` + in + `}}`, []string{address}},
		{"address in hexadecimal", `{"networking":{"address":"0x7f000001",` + in + `}}`, []string{address}},
		{"address in octal", `{"networking":{"address":"0177.0.0.1.",` + in + `}}`, []string{address}},
		{"advertised address that ends in a number", `{"networking":{"address":"192.168.0.1","advertisedAddress":"web.0X",` + in + `}}`, []string{
			"networking.advertisedAddress: address has to be valid IP address or domain name",
		}},
		{"address of a container", `{"networking":{"address":"9f3c2a4b5d6e",` + in + `}}`, nil},
		{"inbound port", inbound(`"port":0`), []string{"networking.inbound[0].port: " + port}},
		{"high ports", inbound(`"port":65536,"servicePort":65536`), []string{"networking.inbound[0].port: " + port, "networking.inbound[0].servicePort: " + port}},
		{"inbound addresses", inbound(`"port":1,"address":"x","serviceAddress":"y"`), []string{
			"networking.inbound[0].serviceAddress: serviceAddress has to be valid IP address", "networking.inbound[0].address: address has to be valid IP address",
		}},
		{"service at the proxy", inbound(`"port":1,"serviceAddress":"192.168.0.1"`), []string{differ}},
		{"service at the inbound", inbound(`"port":1,"servicePort":1,"address":"10.0.0.1","serviceAddress":"10.0.0.1"`), []string{differ}},
		{"service beside the inbound", inbound(`"port":1,"servicePort":2,"address":"10.0.0.1","serviceAddress":"10.0.0.1"`), nil},
		{"two inbounds on one port", `{"networking":{"address":"192.168.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"a"}},{"port":81,"tags":{"mesh.io/service":"b"}},
			{"port":80,"tags":{"mesh.io/service":"c"}},{"port":81,"address":"::ffff:192.168.0.1","tags":{"mesh.io/service":"d"}},{"port":80,"address":"0.0.0.0","tags":{"mesh.io/service":"e"}}]}}`, []string{
			"networking.inbound[2].port: networking.inbound[0] listens on port 80 of the same address", "networking.inbound[3].port: networking.inbound[1] listens on port 81 of the same address",
			"networking.inbound[4].port: networking.inbound[0] listens on port 80 of the same address",
		}},
		{"two inbounds of a name", `{"networking":{"address":"web.example.com","inbound":[{"port":80,"tags":{"mesh.io/service":"a"}},{"port":80,"tags":{"mesh.io/service":"b"}}]}}`, []string{
			"networking.inbound[1].port: networking.inbound[0] listens on port 80 of the same address",
		}},
		{"one port of two addresses", `{"networking":{"address":"192.168.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"a"}},{"port":80,"address":"192.168.0.2","tags":{"mesh.io/service":"b"}}]}}`, nil},
		{"no service tag", inbound(`"port":1,"tags":{"version":"1"}`), []string{`networking.inbound[0].tags["mesh.io/service"]: tag has to exist`}},
		{"protocol", inbound(`"port":1,"tags":{"mesh.io/service":"a","mesh.io/protocol":"xx"}`), []string{
			`networking.inbound[0].tags["mesh.io/protocol"]: tag "mesh.io/protocol" has an invalid value "xx". Allowed values: grpc, http, http2, kafka, tcp`,
		}},
		{"mistyped protocol tag", inbound(`"port":1,"tags":{"mesh.io/service":"a","mesh.io/protocal":"http"}`), []string{
			`networking.inbound[0].tags["mesh.io/protocal"]: no tag of this name means anything to the mesh; did you mean "mesh.io/protocol"?`,
		}},
		{"tags of one's own", inbound(`"port":1,"tags":{"mesh.io/service":"a","mesh.io/version":"1","k8s.mesh.io/servics":"1"}`), nil},
		{"exact tags only", inbound(`"port":1,"tags":{"mesh.io/service":"*","version":""}`), []string{
			`networking.inbound[0].tags["mesh.io/service"]: tag value must consist of alphanumeric characters, dots, dashes and underscores`,
			`networking.inbound[0].tags["version"]: tag value must be non-empty`,
		}},
		{"probe", inbound(`"port":1,"serviceProbe":{"interval":"0s","timeout":"-1s","unhealthyThreshold":0,"healthyThreshold":0,"tcp":{}}`), []string{
			"networking.inbound[0].serviceProbe.interval: must have a positive value", "networking.inbound[0].serviceProbe.timeout: must have a positive value",
			"networking.inbound[0].serviceProbe.unhealthyThreshold: must have a positive value", "networking.inbound[0].serviceProbe.healthyThreshold: must have a positive value",
		}},
		{"probe without settings", inbound(`"port":1,"serviceProbe":{"tcp":{}}`), nil},
		{"probe with settings", inbound(`"port":1,"serviceProbe":{"interval":"10ms","timeout":"1s","unhealthyThreshold":3,"healthyThreshold":2,"tcp":{}}`), nil},
		{"probe all the time", inbound(`"port":1,"serviceProbe":{"interval":"9.9ms","tcp":{}}`), []string{
			"networking.inbound[0].serviceProbe.interval: must not be shorter than 10ms",
		}},
		{"probe of nothing", inbound(`"port":1,"serviceProbe":{}`), []string{
			"networking.inbound[0].serviceProbe.tcp: must be defined: there is no other kind of probe",
		}},
		{"probes of too many", `{"networking":{"address":"10.0.0.1","inbound":[` + strings.TrimSuffix(manyProbed(mesh.MaxServiceProbes+1), ",") + `]}}`, []string{
			"networking.inbound: must have at most 100 elements with serviceProbe",
		}},
		{"probes of many", `{"networking":{"address":"10.0.0.1","inbound":[` + strings.TrimSuffix(manyProbed(mesh.MaxServiceProbes), ",") + `]}}`, nil},
		{"outbound", outbound(`"port":0,"address":"x"`), []string{
			"networking.outbound[0].port: " + port, "networking.outbound[0].address: address has to be valid IP address",
			`networking.outbound[0].tags: mandatory tag "mesh.io/service" is missing`,
		}},
		{"outbound tags", outbound(`"port":1,"tags":{"version":"*"}`), []string{
			`networking.outbound[0].tags: mandatory tag "mesh.io/service" is missing`,
			`networking.outbound[0].tags["version"]: tag value must consist of alphanumeric characters, dots, dashes and underscores`,
		}},
		{"delegated gateway", gateway("", `,"outbound":[{"port":1,"service":"a"}]}`), nil},
		{"delegated gateway with inbound", gateway(`"type":"DELEGATED",`, `,`+in+`}`), []string{"networking.inbound: inbound cannot be defined for delegated gateways"}},
		{"builtin gateway", gateway(`"type":"BUILTIN",`, `,"outbound":[{"port":1,"service":"a"}],`+in+`},"probes":{}`), []string{
			"networking.inbound: inbound cannot be defined for builtin gateways", "networking.outbound: outbound cannot be defined for builtin gateways",
			"networking.probes: probes cannot be defined for builtin gateways",
		}},
		{"gateway tags", `{"networking":{"address":"1.1.1.1","gateway":{"tags":{"mesh.io/protocol":"http"}}}}`, []string{
			`networking.gateway.tags: mandatory tag "mesh.io/service" is missing`,
			`networking.gateway.tags["mesh.io/protocol"]: other values than tcp are not allowed, provided value "http"`,
		}},
		{"admin at the workload", `{"networking":{"address":"1.1.1.1","admin":{"port":80},` + in + `}}`, []string{"networking.admin.port: must differ from inbound"}},
		{"admin at the inbound", `{"networking":{"address":"127.0.0.1","admin":{"port":80},"inbound":[{"port":80,"servicePort":81,"tags":{"mesh.io/service":"a"}}]}}`, []string{
			"networking.admin.port: must differ from inbound",
		}},
		{"admin beside the inbound", `{"networking":{"address":"1.1.1.1","admin":{"port":80},"inbound":[{"port":80,"servicePort":81,"tags":{"mesh.io/service":"a"}}]}}`, nil},
		{"admin at an outbound", `{"networking":{"address":"1.1.1.1","admin":{"port":90},"outbound":[{"port":90,"service":"a"}],` + in + `}}`, []string{
			"networking.admin.port: must differ from outbound",
		}},
		{"metrics", `{"networking":{"address":"1.1.1.1",` + in + `},"metrics":{"type":"x"}}`, []string{`metrics.type: unknown backend type. Available backends: "prometheus"`}},
	})
}

// probes is a dataplane with an inbound, an outbound and ports of its own, and these probes.
func probes(text string) string {
	return `{"networking":{"address":"10.0.0.1","admin":{"port":9901},"inbound":[{"port":80,"servicePort":8080,"tags":{"mesh.io/service":"web"}},
		{"port":81,"serviceAddress":"10.0.0.1","servicePort":8081,"tags":{"mesh.io/service":"web"}}],
		"outbound":[{"address":"10.0.0.1","port":90,"service":"a"},{"port":91,"service":"a"}],"transparentProxying":{"redirectPortInbound":15006,"redirectPortOutbound":15001}},
		"metrics":{"type":"prometheus","conf":{"port":5670}},"probes":` + text + `}`
}

func TestProbes(t *testing.T) {
	const port = "port must be in the range [1, 65535]"
	path := "probes.endpoints[0].path: should be a valid URL Path"
	cases := []documentCase{
		{"none", probes(`{"port":9000}`), nil},
		{"nothing", probes(`{}`), []string{"probes.port: " + port}},
		{"ports", probes(`{"port":65536,"endpoints":[{"inboundPort":0,"inboundPath":"/","path":"/"},{"inboundPort":65536,"inboundPath":"/","path":"/a"}]}`), []string{
			"probes.port: " + port, "probes.endpoints[0].inboundPort: " + port, "probes.endpoints[1].inboundPort: " + port,
		}},
		{"paths", probes(`{"port":9000,"endpoints":[{"inboundPort":80,"inboundPath":"","path":"x"},{"inboundPort":8080,"inboundPath":"http://a/b","path":"/%zz"}]}`), []string{
			"probes.endpoints[0].inboundPath: should be a valid URL Path", path,
			"probes.endpoints[1].inboundPath: should be a valid URL Path", "probes.endpoints[1].path: should be a valid URL Path",
		}},
		{"one path twice", probes(`{"port":9000,"endpoints":[{"inboundPort":80,"inboundPath":"/a","path":"/x"},{"inboundPort":80,"inboundPath":"/a","path":"/y"},{"inboundPort":80,"inboundPath":"/b","path":"/x"}]}`), []string{
			"probes.endpoints[2].path: probes.endpoints[0] has the same path",
		}},
		{"no inbound", probes(`{"port":9000,"endpoints":[{"inboundPort":9090,"inboundPath":"/a","path":"/x"}]}`), []string{"probes.endpoints[0].inboundPort: no inbound has this port"}},
		{"no inbounds at all", gateway("", `},"probes":{"port":9000,"endpoints":[{"inboundPort":9090,"inboundPath":"/a","path":"/x"}]}`), []string{"probes.endpoints[0].inboundPort: no inbound has this port"}},
		{"too many", probes(`{"port":9000,"endpoints":[` + strings.Repeat(`{},`, 256) + `{}]}`), []string{"probes.endpoints: must have at most 256 elements"}},
		{"an outbound elsewhere", probes(`{"port":91}`), nil},
	}
	for _, bad := range []string{"/a?b", "/a#b", "/a b", "/ä", "/a\\tb", "/" + strings.Repeat("a", 1024)} {
		cases = append(cases, documentCase{"path " + bad[:3], probes(`{"port":9000,"endpoints":[{"inboundPort":80,"inboundPath":"/","path":"` + bad + `"}]}`), []string{path}})
	}
	for at, what := range map[string]string{
		"80": "inbound", "8081": "inbound", "8080": "inbound", "90": "outbound", "9901": "networking.admin.port", "5670": "metrics.conf.port",
		"15006": "networking.transparentProxying.redirectPortInbound", "15001": "networking.transparentProxying.redirectPortOutbound",
	} {
		cases = append(cases, documentCase{"the port " + at, probes(`{"port":` + at + `}`), []string{"probes.port: must differ from " + what}})
	}
	runDocuments(t, mesh.Dataplanes, cases)
}

func TestDirectAccess(t *testing.T) {
	direct := func(list string) string {
		return strings.Replace(inbound(`"port":80`), `"address":"192.168.0.1",`, `"address":"192.168.0.1","transparentProxying":{"redirectPortOutbound":15001,"directAccessServices":[`+list+`]},`, 1)
	}
	const at = "networking.transparentProxying.directAccessServices"
	runDocuments(t, mesh.Dataplanes, []documentCase{
		{"services", direct(`"a_b.c","*"`), nil},
		{"no services", direct(`"a b","","` + strings.Repeat("a", 256) + `"`), []string{
			at + "[0]: tag value must consist of alphanumeric characters, dots, dashes and underscores", at + "[1]: tag value must be non-empty", at + "[2]: must not be longer than 255 characters",
		}},
		{"too many", direct(strings.Repeat(`"a",`, 1000) + `"b"`), []string{at + ": must have at most 1000 elements"}},
	})
}

func TestServiceOfOutboundIsKept(t *testing.T) {
	spec, _ := check(t, mesh.Dataplanes, outbound(`"port":1,"service":"redis"`))
	out := spec.(*mesh.Dataplane).Networking.Outbound[0]
	if diff := cmp.Diff(mesh.Outbound{Port: 1, Service: "redis"}, out); diff != "" {
		t.Error(diff)
	}
	if got := out.EffectiveTags().Service(); got != "redis" {
		t.Errorf("service %q", got)
	}
}

// resources is a model.Getter.
type resources map[model.Key]any

func (r resources) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	spec, ok := r[model.Key{Kind: k.Name, Scope: scope, Name: name}]
	if !ok {
		return nil, fault.New(fault.NotFound, "%s not found", k.Name)
	}
	return &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}, nil
}

func TestMembership(t *testing.T) {
	m, violations := check(t, mesh.Meshes, `{"constraints":{"dataplaneProxy":{"requirements":[{"tags":{"team":"*"}},{"tags":{"mesh.io/service":"edge"}}],"restrictions":[{"tags":{"team":"red"}}]}}}`)
	if violations != nil {
		t.Fatal(violations)
	}
	g := resources{{Kind: "mesh", Name: "m"}: m}
	for body, want := range map[string][]string{
		inbound(`"port":1,"tags":{"mesh.io/service":"a","team":"blue"}`): nil,
		gateway("", "}"): nil,
		inbound(`"port":1`): {
			`networking: dataplane cannot be a member of mesh "m" because its tags "mesh.io/service=web" does not fulfill any requirements defined on the Mesh`,
		},
		inbound(`"port":1,"tags":{"mesh.io/service":"a","team":"red"}`): {
			`networking: dataplane cannot be a member of mesh "m" because its tags "mesh.io/service=a,team=red" matches restricted tags`,
		},
	} {
		spec, _ := check(t, mesh.Dataplanes, body)
		got, err := mesh.Dataplanes.Document.Cross(g, nil, &model.Resource{Kind: mesh.Dataplanes, Scope: "m", Name: "d", Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, lines(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

// manyProbed is the text of n inbounds with a probe.
func manyProbed(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `{"port":%d,"tags":{"mesh.io/service":"a"},"serviceProbe":{"tcp":{}}},`, i+1)
	}
	return out.String()
}
