package trafficroute

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
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
		{`selectors`, `"destinations":[{"match":{"version":"v1"}}],"conf":{}`, []string{`sources: must have at least one element`, `destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match["version"]: tag "version" is not allowed`, `destinations[0].match: mandatory tag "mesh.io/service" is missing`, `conf: requires either "destination" or "split"`}},
		{`no conf`, sources + `,` + destinations, []string{`conf: cannot be empty`}},
		{`many rules`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[` + strings.Repeat(`{},`, 256) + `{}]}`, []string{`conf.http: must have at most 256 elements`}},
		{`many shares`, sources + `,` + destinations + `,"conf":{"split":[` + strings.Repeat(`{},`, 64) + `{}],"http":[{"match":{"path":{"prefix":"/"}},"split":[` + strings.Repeat(`{},`, 64) + `{}]}]}`, []string{`conf.split: must have at most 64 elements`, `conf.http[0].split: must have at most 64 elements`}},
		{`most rules and shares`, sources + `,` + destinations + `,"conf":{"split":[` + strings.Repeat(`{"weight":1,"destination":{"mesh.io/service":"a"}},`, 63) + `{"weight":1,"destination":{"mesh.io/service":"a"}}],"http":[` + strings.Repeat(`{"match":{"path":{"prefix":"/"}},"destination":{"mesh.io/service":"a"}},`, 255) + `{"match":{"path":{"prefix":"/"}},"destination":{"mesh.io/service":"a"}}]}`, nil},
		{`empty split`, sources + `,` + destinations + `,"conf":{"split":[]}`, []string{`conf: requires either "destination" or "split"`}},
		{`both`, sources + `,` + destinations + `,"conf":{"split":[{"weight":1,"destination":{"mesh.io/service":"a"}}],"destination":{"mesh.io/service":"a"}}`, []string{`conf: "split" cannot be defined at the same time as "destination"`}},
		{`weights`, sources + `,` + destinations + `,"conf":{"split":[{"destination":{"mesh.io/service":"a"}},{"weight":0,"destination":{"version":"a"}}]}`, []string{`conf.split[0].weight: needs to be defined`, `conf.split[1].destination: mandatory tag "mesh.io/service" is missing`, `conf.split: there must be at least one split entry with weight above 0`}},
		{`choices`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"leastRequest":{"choiceCount":1}}}`, []string{`conf.loadBalancer.leastRequest.choiceCount: value must be greater than or equal to 2`}},
		{`many choices`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"leastRequest":{"choiceCount":101}}}`, []string{`conf.loadBalancer.leastRequest.choiceCount: value must be less than or equal to 100`}},
		{`most choices`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"leastRequest":{"choiceCount":100}}}`, nil},
		{`large ring`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"ringHash":{"hashFunction":"XX_HASH","minRingSize":65537,"maxRingSize":8388609}}}`, []string{`conf.loadBalancer.ringHash.minRingSize: must be at most 65536`, `conf.loadBalancer.ringHash.maxRingSize: must be at most 8388608`}},
		{`largest ring`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"ringHash":{"hashFunction":"XX_HASH","minRingSize":65536,"maxRingSize":8388608}}}`, nil},
		{`hash function`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"ringHash":{"hashFunction":"X","minRingSize":64,"maxRingSize":"32"}}}`, []string{`conf.loadBalancer.ringHash.hashFunction: must have a valid hash function`, `conf.loadBalancer.ringHash.minRingSize: must not be above maxRingSize`}},
		{`two balancers`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"maglev":{},"roundRobin":{}}}`, []string{`conf.loadBalancer: must have only one of: roundRobin, maglev`}},
		{`one balancer, another one null`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"roundRobin":null,"leastRequest":{}}}`, nil},
		{`all balancers`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"roundRobin":{},"leastRequest":{},"ringHash":{"hashFunction":"XX_HASH"},"random":{},"maglev":{}}}`, []string{`conf.loadBalancer: must have only one of: roundRobin, leastRequest, ringHash, random, maglev`}},
		{`hash policies`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"ringHash":{"hashFunction":"XX_HASH","hashPolicies":[
			{"header":{"name":":path"}},{"cookie":{"name":"a","ttl":"0s","path":"/x"},"terminal":true},{"sourceIp":{}},{"queryParameter":{"name":"a b"}},
			{},{"sourceIp":{},"header":{"name":"a"}},{"header":{}},{"header":{"name":"a b"}},{"queryParameter":{}},{"queryParameter":{"name":"a\nb"}},{"header":{"name":"%ENVIRONMENT"}}]}}}`, []string{
			`conf.loadBalancer.ringHash.hashPolicies[4]: must have exactly one of "header", "cookie", "sourceIp" and "queryParameter"`,
			`conf.loadBalancer.ringHash.hashPolicies[5]: must have exactly one of "header", "cookie", "sourceIp" and "queryParameter"`,
			`conf.loadBalancer.ringHash.hashPolicies[6].header.name: cannot be empty`, `conf.loadBalancer.ringHash.hashPolicies[7].header.name: must be a valid header name`,
			`conf.loadBalancer.ringHash.hashPolicies[8].queryParameter.name: cannot be empty`, `conf.loadBalancer.ringHash.hashPolicies[9].queryParameter.name: must not have control characters`,
			`conf.loadBalancer.ringHash.hashPolicies[10].header.name: must not contain %ENVIRONMENT, with which proxies read their environment`,
		}},
		{`cookies`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"maglev":{"hashPolicies":[
			{"cookie":{}},{"cookie":{"name":"a;b"}},{"cookie":{"name":"a","ttl":"-1s"}},{"cookie":{"name":"a","ttl":"10ms"}},{"cookie":{"name":"a","path":"/"}},{"cookie":{"name":"a","ttl":"1s","path":"x"}},{"cookie":{"name":"a","ttl":"1s","path":"/x; Domain=y"}}]}}}`, []string{
			`conf.loadBalancer.maglev.hashPolicies[0].cookie.name: cannot be empty`, `conf.loadBalancer.maglev.hashPolicies[1].cookie.name: must be a valid name of a cookie`,
			`conf.loadBalancer.maglev.hashPolicies[2].cookie.ttl: must be 0s or at least 1s`, `conf.loadBalancer.maglev.hashPolicies[3].cookie.ttl: must be 0s or at least 1s`,
			`conf.loadBalancer.maglev.hashPolicies[4].cookie.path: can only be set together with ttl, because no cookie is made without it`,
			`conf.loadBalancer.maglev.hashPolicies[5].cookie.path: must be a path: it begins with / and has no spaces, semicolons or control characters`,
			`conf.loadBalancer.maglev.hashPolicies[6].cookie.path: must be a path: it begins with / and has no spaces, semicolons or control characters`,
		}},
		{`too many hash policies`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"*"},"loadBalancer":{"maglev":{"hashPolicies":[` + strings.Repeat(`{"sourceIp":{}},`, 16) + `{}]}}}`, []string{`conf.loadBalancer.maglev.hashPolicies: must have at most 16 elements`}},
		{`no match`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"destination":{"mesh.io/service":"a"}}]}`, []string{`conf.http[0].match: must be present and contain at least one of the elements: "method", "path" or "headers"`}},
		{`matchers`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"method":{},"path":{"prefix":""},"headers":{"a b":{"regex":"("},"x":{"regex":""}}}}]}`, []string{`conf.http[0].match.method: cannot be empty. Available options: "exact", "split" or "regex"`, `conf.http[0].match.path.prefix: cannot be empty`, `conf.http[0].match.headers["a b"]: must be a valid header name`, `conf.http[0].match.headers["a b"].regex: must be a valid regular expression`, `conf.http[0].match.headers["x"].regex: cannot be empty`, `conf.http[0]: requires either "destination" or "split"`}},
		{`what agents refuse`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"prefix":"/"},"headers":{"%ENVIRONMENT":{"exact":"@authz"}}},"destination":{"mesh.io/service":"a"},"modify":{"path":{"rewritePrefix":"/%ENVIRONMENT"},"host":{"value":"@authz"},"requestHeaders":{"add":[{"name":"%ENVIRONMENT","value":"@authz"},{"name":"a","value":"%ENVIRONMENT"}],"remove":[{"name":"%ENVIRONMENT"}]}}}]}`, []string{
			`conf.http[0].match.headers["%ENVIRONMENT"]: must not contain %ENVIRONMENT, with which proxies read their environment`,
			`conf.http[0].modify.path.rewritePrefix: must not contain %ENVIRONMENT, with which proxies read their environment`,
			`conf.http[0].modify.host.value: must not be @authz, which is a cluster of the proxy's own`,
			`conf.http[0].modify.requestHeaders.add[0].name: must not contain %ENVIRONMENT, with which proxies read their environment`,
			`conf.http[0].modify.requestHeaders.add[0].value: must not be @authz, which is a cluster of the proxy's own`,
			`conf.http[0].modify.requestHeaders.remove[0].name: must not contain %ENVIRONMENT, with which proxies read their environment`,
		}},
		{`modifications`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"exact":"/"}},"destination":{"mesh.io/service":"a"},"modify":{"path":{"rewritePrefix":"/x"},"host":{},"requestHeaders":{"add":[{"name":"Host","value":"x"},{"name":""}],"remove":[{"name":":path"}]}}}]}`, []string{`conf.http[0].modify.path.rewritePrefix: can only be set when .http.match.path.prefix is not empty`, `conf.http[0].modify.host: either "value" or "fromPath" has to be set`, `conf.http[0].modify.requestHeaders.add[0].name: host header and HTTP/2 pseudo-headers are not allowed to be modified`, `conf.http[0].modify.requestHeaders.add[1].name: cannot be empty`, `conf.http[0].modify.requestHeaders.add[1].value: cannot be empty`, `conf.http[0].modify.requestHeaders.remove[0].name: host header and HTTP/2 pseudo-headers are not allowed to be modified`}},
		{`substitutions`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"prefix":"/"}},"destination":{"mesh.io/service":"a"},"modify":{"path":{"regex":{}},"host":{"fromPath":{"pattern":"["}}}}]}`, []string{`conf.http[0].modify.path.regex.pattern: cannot be empty`, `conf.http[0].modify.path.regex.substitution: cannot be empty`, `conf.http[0].modify.host.fromPath.pattern: must be a valid regular expression`, `conf.http[0].modify.host.fromPath.substitution: cannot be empty`}},
		{`what Envoy refuses`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"prefix":"/"}},"destination":{"mesh.io/service":"a"},"modify":{"path":{"rewritePrefix":"/\n"},"host":{"fromPath":{"pattern":"^/(a)$","substitution":"a\u0000"}},"requestHeaders":{"add":[{"name":"a","value":"` + strings.Repeat("%", 8193) + `"}]},"responseHeaders":{"remove":[{"name":"` + strings.Repeat("a", 8193) + `"}]}}}]}`, []string{
			`conf.http[0].modify.path.rewritePrefix: must be a valid header value`, `conf.http[0].modify.host.fromPath.substitution: must consist of characters that a header can have`,
			`conf.http[0].modify.requestHeaders.add[0].value: must not have more than 8192 bytes`, `conf.http[0].modify.responseHeaders.remove[0].name: must not have more than 8192 bytes`,
		}},
		{`expressions`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"regex":"\\p{Letter}"},"method":{"regex":"\\x{100}"}},"destination":{"mesh.io/service":"a"},"modify":{"path":{"regex":{"pattern":"^/(.*)$","substitution":"/\\2"}}}}]}`, []string{
			`conf.http[0].match.method.regex: must not use \p, \P or codes above \x7F: versions of Envoy read them differently`,
			`conf.http[0].match.path.regex: must not use \p, \P or codes above \x7F: versions of Envoy read them differently`,
			`conf.http[0].modify.path.regex.substitution: \2 is no group of the expression, which has 1`,
		}},
		{`many headers`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"prefix":"/"}},"destination":{"mesh.io/service":"a"},"modify":{"requestHeaders":{"add":[` + strings.Repeat(`{},`, 64) + `{}]},"responseHeaders":{"remove":[` + strings.Repeat(`{},`, 64) + `{}]}}}]}`, []string{`conf.http[0].modify.requestHeaders.add: must have at most 64 elements`, `conf.http[0].modify.responseHeaders.remove: must have at most 64 elements`}},
		{`empty modifications`, sources + `,` + destinations + `,"conf":{"destination":{"mesh.io/service":"a"},"http":[{"match":{"path":{"prefix":"/"}},"destination":{"mesh.io/service":"a"},"modify":{"path":{},"host":{"value":""}}}]}`, []string{`conf.http[0].modify.path: either "rewritePrefix" or "regex" has to be set`, `conf.http[0].modify.host.value: cannot be empty`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"TrafficRoute","mesh":"demo","name":"x",`+c.fields+`}`))
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

// TestNothingIsHashed: nothing is hashed unasked. The only address to hash would be that of the
// workload beside the proxy, and with it every request would go to one endpoint.
func TestNothingIsHashed(t *testing.T) {
	for _, balancer := range []string{"ringHash: {hashFunction: XX_HASH}", "maglev: {}"} {
		s := policytest.Select(t, Policy, []byte(`
type: TrafficRoute
mesh: demo
name: x
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {destination: {mesh.io/service: backend}, loadBalancer: {`+balancer+`}}
`))
		for _, protocol := range policytest.Protocols {
			d := policytest.NewDrafts(protocol, true)
			if err := d.Apply(Policy, s); err != nil {
				t.Fatal(err)
			}
			if d.Split.Hash != nil || d.Split.HashSource {
				t.Errorf("%s, %s: %v is hashed", balancer, protocol, d.Split)
			}
		}
	}
}

// TestIdle: of a connection of TCP only its source can be hashed.
func TestIdle(t *testing.T) {
	s := policytest.Select(t, Policy, []byte(`
type: TrafficRoute
mesh: demo
name: x
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {destination: {mesh.io/service: backend}, loadBalancer: {maglev: {hashPolicies: [{sourceIp: {}}, {header: {name: x-user}}]}}}
`))
	want := []string{"conf.loadBalancer.maglev.hashPolicies[1] has no effect: the destination speaks tcp, and of its connections only sourceIp can be hashed"}
	for protocol, want := range map[string][]string{"": nil, mesh.ProtocolHTTP: nil, mesh.ProtocolGRPC: nil, mesh.ProtocolTCP: want} {
		if diff := cmp.Diff(want, Policy.IdleFields(s, policy.Setting{Protocol: protocol})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", protocol, diff)
		}
	}
	if !Policy.Hashing(s) {
		t.Error("endpoints are not picked by a hash")
	}
}

// TestRingsThatEnvoyTakes: Envoy refuses a ring whose minimum is above its maximum. The
// default minimum is 1,024.
func TestRingsThatEnvoyTakes(t *testing.T) {
	for _, r := range []RingHash{{}, {MaxRingSize: 512}, {MaxRingSize: 4096}, {MinRingSize: 16}, {MinRingSize: 16, MaxRingSize: 32}} {
		c := ring(&r)
		least, most := uint64(1024), uint64(8<<20)
		if v := c.GetMinimumRingSize(); v != nil {
			least = v.GetValue()
		}
		if v := c.GetMaximumRingSize(); v != nil {
			most = v.GetValue()
		}
		if least > most {
			t.Errorf("%+v becomes %d to %d", r, least, most)
		}
	}
}
