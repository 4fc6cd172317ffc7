package ratelimit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	const who = `"sources":[{"match":{"team":"a"}}],"destinations":[{"match":{"mesh.io/service":"x"}}]`
	limit := func(on string) string {
		return who + `,"conf":{"http":{"requests":1,"interval":"1s","onRateLimit":{` + on + `}}}`
	}
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{`nothing`, ``, []string{`sources: must have at least one element`, `destinations: must have at least one element`, `conf: must have conf`}},
		{`empty`, who + `,"conf":{}`, nil},
		{`unset`, who + `,"conf":{"http":{}}`, []string{`conf.http.requests: requests must be set`, `conf.http.interval: interval must be set`}},
		{`short`, who + `,"conf":{"http":{"requests":1,"interval":"49ms"}}`, []string{`conf.http.interval: must be at least 50ms`}},
		{`shortest`, who + `,"conf":{"http":{"requests":1,"interval":"50ms"}}`, nil},
		{`statuses`, limit(`"status":200`), []string{`conf.http.onRateLimit.status: must be an http status code of 400 or more that Envoy knows`}},
		{`unknown status`, limit(`"status":418`), []string{`conf.http.onRateLimit.status: must be an http status code of 400 or more that Envoy knows`}},
		{`status`, limit(`"status":423`), nil},
		{`headers`, limit(`"headers":[{},{"key":"a b","value":"\u0001"},{"key":"host","value":"x"},{"key":"x","value":"\n"}]`), []string{
			`conf.http.onRateLimit.header["0"]: key must be set`, `conf.http.onRateLimit.header["0"]: value must be set`,
			`conf.http.onRateLimit.header["1"].key: must be a header name`,
			`conf.http.onRateLimit.header["2"].key: host header and HTTP/2 pseudo-headers are not allowed to be modified`,
			`conf.http.onRateLimit.header["3"].value: must not have control characters`,
		}},
		{`what agents refuse`, limit(`"headers":[{"key":"%ENVIRONMENT","value":"@authz"},{"key":"x","value":"%ENVIRONMENT"}]`), []string{
			`conf.http.onRateLimit.header["0"].key: must not contain %ENVIRONMENT, with which proxies read their environment`,
			`conf.http.onRateLimit.header["0"].value: must not be @authz, which is a cluster of the proxy's own`,
		}},
		{`long headers`, limit(`"headers":[{"key":"x","value":"` + strings.Repeat("%", 8192) + `"},{"key":"x","value":"` + strings.Repeat("%", 8193) + `"}]`), []string{`conf.http.onRateLimit.header["1"].value: must not have more than 8192 bytes`}},
		{`ten headers`, limit(`"headers":[` + strings.Repeat(`{"key":"x","value":"y"},`, 9) + `{"key":"x","value":"y"}]`), nil},
		{`eleven headers`, limit(`"headers":[` + strings.Repeat(`{"key":"x","value":"y"},`, 10) + `{"key":"x","value":"y"}]`), []string{`conf.http.onRateLimit.header: must have at most 10 elements`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := `{"type":"RateLimit","mesh":"demo","name":"x"`
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

// TestMostSpecificFirst: of the sources of all policies the most specific one counts, whatever
// the order of the policies; of equal ones that of the first policy.
func TestMostSpecificFirst(t *testing.T) {
	of := func(name string, requests uint32, sources ...mesh.Tags) *view.Policy {
		s := &Spec{Conf: &Conf{HTTP: &HTTP{Requests: requests}}}
		for _, m := range sources {
			s.Sources = append(s.Sources, mesh.Selector{Match: m})
		}
		return policytest.Of(Kind, name, s)
	}
	all, web := mesh.Tags{mesh.TagService: mesh.AnyValue}, mesh.Tags{mesh.TagService: "web"}
	v1, any1 := mesh.Tags{mesh.TagService: "web", "version": "v1"}, mesh.Tags{mesh.TagService: mesh.AnyValue, "version": mesh.AnyValue}
	s := &policy.Selection{Policies: []*view.Policy{of("a", 1, all, web), of("b", 2, v1, all), of("c", 3, any1), policytest.Of(Kind, "d", &Spec{Conf: &Conf{}})}}
	var got []string
	for _, l := range limits(s) {
		got = append(got, strings.Repeat("i", int(l.Requests))+" "+l.source.Match.String())
	}
	want := []string{"ii " + v1.String(), "iii " + any1.String(), "i " + web.String(), "i " + all.String(), "ii " + all.String()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestEverybodyIsTheLast: a limit for everybody is one bucket, also for callers whom a source
// of a later policy selects that is as specific.
func TestEverybodyIsTheLast(t *testing.T) {
	all, team := mesh.Tags{mesh.TagService: mesh.AnyValue}, mesh.Tags{"team": mesh.AnyValue}
	of := func(name string, requests uint32, source mesh.Tags) *view.Policy {
		return policytest.Of(Kind, name, &Spec{
			Connection: mesh.Connection{Sources: []mesh.Selector{{Match: source}}}, Conf: &Conf{HTTP: &HTTP{Requests: requests, Interval: mesh.Of(time.Second)}},
		})
	}
	for _, c := range []struct {
		policies []*view.Policy
		buckets  int
	}{
		{[]*view.Policy{of("a", 1, all), of("b", 2, team)}, 1},
		{[]*view.Policy{of("b", 2, team), of("a", 1, all)}, 2},
	} {
		d := policytest.NewDrafts(mesh.ProtocolHTTP, true)
		if err := d.Callers(Policy, &policy.Selection{Policies: c.policies}); err != nil {
			t.Fatal(err)
		}
		buckets := 0
		for _, r := range d.InboundRoutes.Host.GetRoutes() {
			if r.GetTypedPerFilterConfig()[filter] != nil {
				buckets++
			}
		}
		if buckets != c.buckets {
			t.Errorf("%s first: %d limits, want %d", c.policies[0].Name, buckets, c.buckets)
		}
	}
}
