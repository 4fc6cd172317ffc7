package sidecar_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// hashed is a route to the backend that hashes a header and the source.
const hashed = `
type: TrafficRoute
mesh: demo
name: hashed
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  destination: {mesh.io/service: backend}
  http:
  - match: {path: {prefix: /api}}
    destination: {mesh.io/service: backend}
  loadBalancer: {maglev: {hashPolicies: [{header: {name: x-user}, terminal: true}, {sourceIp: {}}]}}
`

// checked lets the proxies of web check the backend.
const checked = `
type: HealthCheck
mesh: demo
name: checked
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {interval: 1s, timeout: 1s, unhealthyThreshold: 1, healthyThreshold: 1, failTrafficOnPanic: true}
`

// TestFieldsWithoutEffect: what policies say in vain at a destination is told as something that is
// made as configured, with the policy that says it, and no longer when it has an effect.
func TestFieldsWithoutEffect(t *testing.T) {
	w := newWorld(t)
	told := func(step string, want ...string) {
		t.Helper()
		w.settle()
		var got []string
		for _, f := range w.planner.Unserved("web-1") {
			if f.Awaited && cmp.Equal(f.By, []string{f.Cell}) {
				got = append(got, f.Cell+": "+f.Err.Error())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
		if all := w.planner.Failures("web-1"); len(all) > 0 {
			t.Errorf("%s: %v", step, all)
		}
	}
	const (
		panics = "HealthCheck checked: conf.failTrafficOnPanic has no effect: the TrafficRoute picks endpoints by a hash, and in a panic Envoy then picks from all of them"
		header = "TrafficRoute hashed: conf.loadBalancer.maglev.hashPolicies[0] has no effect: the destination speaks tcp, and of its connections only sourceIp can be hashed"
	)
	pair("http")(w)
	w.joined("web-1")
	w.raw(checked)
	told("nothing is hashed")
	w.raw(hashed)
	told("a header is hashed", panics)
	pair("tcp")(w)
	told("the backend speaks TCP", header, panics)
	w.drop(trafficroute.Kind, "hashed")
	told("nothing is hashed any more")
}
