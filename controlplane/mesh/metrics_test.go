package mesh_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

func TestMetricsValidation(t *testing.T) {
	conf := func(text string) string {
		return `{"metrics":{"backends":[{"name":"a","type":"prometheus","conf":{` + text + `}}]}}`
	}
	one := func(application string) string { return conf(`"aggregate":[{"name":"a",` + application + `}]`) }
	const at, address = "metrics.backends[0].conf", "has to be an IP address at which an application of the proxy's machine can be: not one of a link, of a group, or of a cloud's metadata"
	runDocuments(t, mesh.Meshes, []documentCase{
		{"everything", conf(`"port":"1234","path":"/a/b/","tags":{"mesh.io/service":"m","mesh.io/protocol":"http"},"tls":{"mode":"activeMTLSBackend"},
			"envoy":{"filterRegex":"http.*","usedOnly":true},"aggregate":[{"name":"app","port":80,"path":"/metrics?format=prometheus","address":"127.0.0.2"},{"name":"off","enabled":false}]`), nil},
		{"mode", conf(`"tls":{"mode":"delegated"}`), []string{at + ".tls.mode: has invalid value. Allowed values: activeMTLSBackend, disabled"}},
		{"mode that is none", conf(`"tls":{"mode":1}`), []string{at + ".tls.mode: has invalid value. Allowed values: activeMTLSBackend, disabled"}},
		{"no mode but null", conf(`"tls":{"mode":null}`), []string{at + ".tls.mode: has invalid value. Allowed values: activeMTLSBackend, disabled"}},
		{"skipMTLS", conf(`"skipMTLS":"yes"`), []string{at + ".skipMTLS: must be true or false"}},
		{"objects", conf(`"tls":1,"envoy":[],"tags":"a","aggregate":{}`), []string{
			at + ".tls: must be an object", at + ".tags: must be an object", at + `.tags: mandatory tag "mesh.io/service" is missing`,
			at + ".envoy: must be an object", at + ".aggregate: must be a list",
		}},
		{"tags", conf(`"tags":{"mesh.io/service":"m","mesh.io/protocol":"tcp","n":1}`), []string{
			at + `.tags["n"]: must be a text`, at + `.tags["mesh.io/protocol"]: must be http, which is what metrics are served with`, at + `.tags["n"]: tag value must be non-empty`,
		}},
		{"a path that is normalized", conf(`"path":"/a/../b"`), []string{at + ".path: should be a valid URL Path"}},
		{"a path with a query", conf(`"path":"/a?b"`), []string{at + ".path: should be a valid URL Path"}},
		{"a filter that reads the environment", conf(`"envoy":{"filterRegex":"%ENVIRONMENT(A)%"}`), []string{
			at + ".envoy.filterRegex: must not contain %ENVIRONMENT, with which proxies read their environment",
		}},
		{"a long filter", conf(`"envoy":{"filterRegex":"` + strings.Repeat("a", 1025) + `"}`), []string{at + ".envoy.filterRegex: must not be longer than 1024 bytes"}},
		{"an application without a name", conf(`"aggregate":[{"port":80}]`), []string{at + ".aggregate[0].name: cannot be empty"}},
		{"port of an application", one(`"port":65536`), []string{at + ".aggregate[0].port: port must be in the range [1, 65535]"}},
		{"path of an application", one(`"port":80,"path":"http://a/b"`), []string{at + ".aggregate[0].path: should be a valid URL Path"}},
		{"two lines", one(`"port":80,"path":"/a\nb"`), []string{at + ".aggregate[0].path: should be a valid URL Path", at + ".aggregate[0].path: must have no control characters"}},
		{"a name", one(`"port":80,"address":"localhost"`), []string{at + ".aggregate[0].address: " + address}},
		{"credentials of a cloud", one(`"port":80,"address":"169.254.169.254"`), []string{at + ".aggregate[0].address: " + address}},
		{"credentials of another cloud", one(`"port":80,"address":"fd00:ec2::254"`), []string{at + ".aggregate[0].address: " + address}},
		{"the same in another form", one(`"port":80,"address":"::ffff:169.254.169.254"`), []string{at + ".aggregate[0].address: " + address}},
		{"many applications", conf(`"aggregate":[` + strings.TrimSuffix(strings.Repeat(`{},`, 33), ",") + `]`), []string{at + ".aggregate: must not have more than 32 elements"}},
	})
	runDocuments(t, mesh.Dataplanes, []documentCase{
		{"of a dataplane", `{"networking":{"address":"10.0.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"a"}}]},
			"metrics":{"type":"prometheus","conf":{"port":0,"tags":{"mesh.io/protocol":"tcp"},"aggregate":[{"name":"a"},{"name":"a"}]}}}`, []string{
			"metrics.conf.port: port must be in the range [1, 65535]", `metrics.conf.tags["mesh.io/protocol"]: must be http, which is what metrics are served with`,
			"metrics.conf.aggregate[1].name: duplicate entry: a, values have to be unique",
		}},
	})
}

// scraping returns how a dataplane of a mesh is scraped, with both metrics as JSON.
func scraping(t *testing.T, meshMetrics, own string) (*mesh.Scraping, error) {
	t.Helper()
	m, _ := check(t, mesh.Meshes, `{"metrics":{"enabledBackend":"p","backends":[{"name":"p","type":"prometheus","conf":`+meshMetrics+`}]}}`)
	mesh.Meshes.Document.Default(m)
	d, _ := check(t, mesh.Dataplanes, `{"metrics":`+own+`}`)
	return m.(*mesh.Mesh).Scraping(d.(*mesh.Dataplane))
}

// TestScraping: a dataplane says only what is different from its mesh.
func TestScraping(t *testing.T) {
	defaults := func(change func(*mesh.Scraping)) *mesh.Scraping {
		s := &mesh.Scraping{Port: 5670, Path: "/metrics", Tags: mesh.Tags{mesh.TagService: "dataplane-metrics"}}
		change(s)
		return s
	}
	for _, tt := range []struct {
		name, mesh, own string
		want            *mesh.Scraping
	}{
		{"defaults", `{}`, `null`, defaults(func(*mesh.Scraping) {})},
		{"another port", `{"envoy":{"usedOnly":true}}`, `{"type":"prometheus","conf":{"port":1234,"envoy":{"filterRegex":"http"},"tags":{"a":"b"}}}`, defaults(func(s *mesh.Scraping) {
			s.Port, s.UsedOnly, s.Filter, s.Tags["a"] = 1234, true, "http", "b"
		})},
		{"no mutual TLS", `{"tls":{"mode":"activeMTLSBackend"}}`, `{"type":"prometheus","conf":{"skipMTLS":true}}`, defaults(func(s *mesh.Scraping) { s.Plain = true })},
		{"mutual TLS again", `{"skipMTLS":true}`, `{"type":"prometheus","conf":{"tls":{"mode":"activeMTLSBackend"}}}`, defaults(func(*mesh.Scraping) {})},
		{"applications", `{"aggregate":[{"name":"b","port":1},{"name":"a","port":2},{"name":"c"}]}`,
			`{"type":"prometheus","conf":{"aggregate":[{"name":"b","enabled":false},{"name":"d","port":3,"path":"/d","address":"::1"},{"name":"a","port":4}]}}`,
			defaults(func(s *mesh.Scraping) {
				s.Applications = []mesh.Application{{Name: "a", Port: 4, Path: "/metrics"}, {Name: "d", Address: "::1", Port: 3, Path: "/d"}}
				s.Incomplete = []string{"c"}
			})},
	} {
		got, err := scraping(t, tt.mesh, tt.own)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := scraping(t, `{"port":0}`, `null`); err == nil || !strings.Contains(err.Error(), "conf.port: port must be") {
		t.Errorf("a configuration that was stored before it was checked: %v", err)
	}
	for _, stored := range []struct{ mesh, own string }{
		{`null`, `{"type":"prometheus","conf":{"port":1234}}`}, {`{"aggregate":[null]}`, `{"type":"prometheus","conf":{"aggregate":[{"port":1}]}}`},
		{`{"aggregate":[null]}`, `{"type":"prometheus","conf":{"aggregate":[null]}}`}, {`{"tags":null}`, `{"type":"prometheus","conf":{"tags":{"a":"b"}}}`},
	} {
		var of mesh.Mesh
		var own mesh.Dataplane
		for text, into := range map[string]any{`{"metrics":{"enabledBackend":"p","backends":[{"name":"p","type":"prometheus","conf":` + stored.mesh + `}]}}`: &of, `{"metrics":` + stored.own + `}`: &own} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := of.Scraping(&own); err == nil {
			t.Errorf("%s and %s are in order", stored.mesh, stored.own)
		}
	}
	if s, err := (&mesh.Mesh{}).Scraping(&mesh.Dataplane{Metrics: &mesh.MetricsBackend{Type: mesh.Prometheus}}); s != nil || err != nil {
		t.Errorf("without a backend of the mesh: %v, %v", s, err)
	}
}
