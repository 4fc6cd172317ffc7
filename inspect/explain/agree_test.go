package explain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/healthcheck"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/resource"
)

// envAgree sets how many worlds [TestInspectionAgreesWithTheSnapshot] draws.
const envAgree = "MESHGATE_TEST_INSPECT_WORLDS"

// tune draws what tunes outbounds. No two policies have a number in common, so a number says
// which policy it is of.
func (d *drawing) tune() {
	for i := range 1 + d.IntN(3) {
		n := uint32(10*i + 11)
		name, spans := fmt.Sprintf("tune-%d", i), mesh.Of(time.Duration(n)*time.Second)
		d.w.put(circuitbreaker.Kind, d.w.name, name, &circuitbreaker.Spec{Connection: d.connection(), Conf: &circuitbreaker.Conf{
			Thresholds: &circuitbreaker.Thresholds{MaxConnections: &n},
		}})
		d.w.put(healthcheck.Kind, d.w.name, name, &healthcheck.Spec{Connection: d.connection(), Conf: &healthcheck.Conf{
			Interval: spans, Timeout: mesh.Of(time.Second), UnhealthyThreshold: n, HealthyThreshold: 1, TCP: &healthcheck.TCP{},
		}})
		d.w.put(timeout.Kind, d.w.name, name, &timeout.Spec{Connection: d.connection(), Conf: &timeout.Conf{
			ConnectTimeout: spans, HTTP: &timeout.HTTP{RequestTimeout: spans},
		}})
		d.w.put(retry.Kind, d.w.name, name, &retry.Spec{Connection: d.connection(), Conf: &retry.Conf{
			HTTP: &retry.HTTP{NumRetries: &n}, TCP: &retry.TCP{MaxConnectAttempts: n},
		}})
	}
}

// shownPlace is a place as the API shows it, with the numbers that this test compares.
type shownPlace struct {
	Type, Name, Service string
	Effective           struct {
		CircuitBreaker *struct {
			Thresholds struct{ MaxConnections uint32 }
		}
		HealthCheck *struct{ UnhealthyThreshold uint32 }
		Timeout     *struct {
			ConnectTimeout string
			HTTP           struct{ RequestTimeout string }
		}
		Retry *struct {
			HTTP struct{ NumRetries uint32 }
			TCP  struct{ MaxConnectAttempts uint32 }
		}
		RateLimit []struct {
			HTTP struct{ Requests uint32 }
		}
		FaultInjection []struct {
			Conf struct{ Abort struct{ HTTPStatus uint32 } }
		}
		TrafficPermission *struct{ Sources []mesh.Selector }
		TrafficRoute      *struct {
			shownLeads
			HTTP []shownLeads
		}
	}
	Policies map[string][]struct{ Name string } `json:"matchedPolicies"`
}

// shownLeads is where a route leads as the API shows it.
type shownLeads struct {
	Destination mesh.Tags
	Split       []struct {
		Weight      uint32
		Destination mesh.Tags
	}
}

// principal is the service whose retries an outbound has: its own if a route
// leads there at all, else the first; none if this test cannot tell which that is.
func (p *shownPlace) principal() string {
	r := p.Effective.TrafficRoute
	if r == nil {
		return p.Service
	}
	var services []string
	add := func(tags mesh.Tags) {
		switch service := tags.Service(); service {
		case "":
		case mesh.AnyValue:
			services = append(services, p.Service)
		default:
			services = append(services, service)
		}
	}
	for _, l := range append(r.HTTP, r.shownLeads) {
		add(l.Destination)
		for _, s := range l.Split {
			if s.Weight > 0 {
				add(s.Destination)
			}
		}
	}
	services = slices.Compact(slices.Sorted(slices.Values(services)))
	switch {
	case slices.Contains(services, p.Service) || len(services) == 0:
		return p.Service
	case len(services) == 1:
		return services[0]
	}
	return ""
}

// shownRule is a rule as the API shows it.
type shownRule struct {
	Name, PolicyType string
	Subset           map[string]string
	Conf             struct{ Action string }
}

// agreement compares what the API says about one dataplane with what its proxy has.
type agreement struct {
	t      *testing.T
	d      *drawing
	name   string
	spec   *mesh.Dataplane
	set    *resource.Set
	places []shownPlace
	rules  []shownRule
	// seen counts what was compared.
	seen map[string]int
}

// TestInspectionAgreesWithTheSnapshot draws meshes. What /policies and /rules say about each
// dataplane is in the configuration of its proxy, with its numbers, and there is nothing else:
// circuit breakers, health checks, timeouts and retries of what it calls; limits, faults and
// permissions of its inbounds, and the tokens that they demand. These two are compared by what they
// do to each other dataplane.
func TestInspectionAgreesWithTheSnapshot(t *testing.T) {
	worlds, seed := setting(t, envAgree, 150), setting(t, envSeed, 1)
	seen := map[string]int{}
	for i := range worlds {
		d := drawn(newWorld(t, fmt.Sprintf("w%d", seed+i)), seed+i, "127.77.7", []byte("roots"))
		d.tune()
		d.w.plan()
		for _, name := range d.w.joined {
			a := &agreement{t: t, d: d, name: name, set: d.w.planner.Set(name), seen: seen}
			a.read()
			a.clusters()
			a.outbounds()
			a.inbounds()
			if t.Failed() {
				t.Fatalf("seed %d, dataplane %s", seed+i, name)
			}
		}
	}
	t.Logf("compared: %v", seen)
	for _, what := range []string{
		"connections", "checks", "connect timeouts", "request timeouts", "retries", "attempts", "limits", "faults",
		"permitted", "refused", "rules permit", "rules refuse", "in " + mesh.ModeStrict, "in " + mesh.ModePermissive,
		"tokens demanded", "no tokens taken", "no tokens demanded",
	} {
		if seen[what] == 0 {
			t.Errorf("no %s were compared", what)
		}
	}
}

// read reads the two documents as a client does.
func (a *agreement) read() {
	p := a.d.w.meshes().Policies
	decode := func(into any) func(any) error {
		return func(doc any) error {
			text, err := json.Marshal(doc)
			if err == nil {
				err = json.Unmarshal(text, into)
			}
			return err
		}
	}
	var places struct{ Items []shownPlace }
	var rules struct{ Items []shownRule }
	if err := p.Of(a.t.Context(), a.d.w.name, a.name, true, decode(&places)); err != nil {
		a.t.Fatal(err)
	}
	if err := p.Rules(a.t.Context(), a.d.w.name, a.name, decode(&rules)); err != nil {
		a.t.Fatal(err)
	}
	a.places, a.rules = places.Items, rules.Items
	a.spec = a.d.spec(p, a.name)
}

// spec is a dataplane of the world.
func (d *drawing) spec(p *inspect.Policies, name string) (spec *mesh.Dataplane) {
	scope, err := p.Views.Mesh(context.Background(), d.w.name)
	if err != nil {
		d.w.t.Fatal(err)
	}
	defer scope.Release()
	m, err := scope.Await(context.Background(), d.w.db.Revision(), nil)
	if err != nil {
		d.w.t.Fatal(err)
	}
	of, ok := m.Dataplane(name)
	if !ok {
		d.w.t.Fatalf("%s is not there", name)
	}
	return of.Spec
}

// same compares the numbers that the API shows with those that the proxy has.
func (a *agreement) same(what, where string, shown, has []string) {
	a.t.Helper()
	shown, has = slices.Compact(slices.Sorted(slices.Values(shown))), slices.Compact(slices.Sorted(slices.Values(has)))
	if !slices.Equal(shown, has) {
		a.t.Errorf("%s of %s: inspection says %v, and the proxy has %v", what, where, shown, has)
	}
	a.seen[what] += len(has)
}

// serviceOf is the service of a cluster, empty for one of an own workload.
func serviceOf(cluster string) string {
	service, _, _ := strings.Cut(cluster, "@")
	return service
}

func (a *agreement) cluster(name string) *clusterv3.Cluster {
	r, c := a.set.Get(resource.Cluster, name), new(clusterv3.Cluster)
	if r == nil {
		a.t.Fatalf("there is no cluster %s", name)
	}
	if err := proto.Unmarshal(r.Body, c); err != nil {
		a.t.Fatal(err)
	}
	return c
}

// clusters compares what tunes the clusters of each service.
func (a *agreement) clusters() {
	shown, has := map[string]map[string][]string{}, map[string]map[string][]string{}
	note := func(of map[string]map[string][]string, what, service string, n any) {
		if of[service] == nil {
			of[service] = map[string][]string{}
		}
		of[service][what] = append(of[service][what], fmt.Sprint(n))
	}
	for _, r := range a.set.All(resource.Cluster) {
		c := a.cluster(r.Name)
		service := serviceOf(r.Name)
		if service == "" {
			continue
		}
		note(has, "clusters", service, r.Name)
		for _, th := range c.GetCircuitBreakers().GetThresholds() {
			note(has, "connections", service, th.GetMaxConnections().GetValue())
		}
		for _, h := range c.GetHealthChecks() {
			note(has, "checks", service, h.GetUnhealthyThreshold().GetValue())
		}
	}
	for i := range a.places {
		p := &a.places[i]
		if p.Type != "service" && p.Type != "outbound" || has[p.Service] == nil {
			continue // nobody reaches it
		}
		if c := p.Effective.CircuitBreaker; c != nil {
			note(shown, "connections", p.Service, c.Thresholds.MaxConnections)
		}
		if h := p.Effective.HealthCheck; h != nil {
			note(shown, "checks", p.Service, h.UnhealthyThreshold)
		}
	}
	for service := range has {
		for _, what := range []string{"connections", "checks"} {
			a.same(what, service, shown[service][what], has[service][what])
		}
	}
}

func (a *agreement) span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

// outbounds compares what tunes the requests of each outbound.
func (a *agreement) outbounds() {
	for i := range a.places {
		p := &a.places[i]
		if p.Type != "outbound" {
			continue
		}
		l := listenerOf(a.t, a.set, "outbound:"+p.Name)
		if l == nil {
			continue // it leads nowhere
		}
		var retries, attempts, requests []string
		leads := p.principal()
		for j := range a.places { // retries are chosen for where an outbound leads
			if of := &a.places[j]; of.Type == "service" && of.Service == leads && of.Effective.Retry != nil {
				retries = append(retries, fmt.Sprint(of.Effective.Retry.HTTP.NumRetries))
				attempts = append(attempts, fmt.Sprint(of.Effective.Retry.TCP.MaxConnectAttempts))
			}
		}
		if to := p.Effective.Timeout; to != nil {
			requests = append(requests, fmt.Sprint(a.span(to.HTTP.RequestTimeout)))
			var connects []string
			for _, name := range l.clusters() {
				connects = append(connects, fmt.Sprint(a.cluster(name).GetConnectTimeout().AsDuration()))
			}
			if len(connects) > 0 {
				a.same("connect timeouts", p.Name, []string{fmt.Sprint(a.span(to.ConnectTimeout))}, connects)
			}
		}
		switch {
		case l.routes == nil && leads != "":
			a.same("attempts", p.Name, attempts, l.attempts())
		case l.routes != nil:
			a.same("request timeouts", p.Name, requests, l.timeouts())
			if leads != "" {
				a.same("retries", p.Name, retries, l.retries())
			}
		}
	}
}

// inbounds compares the limits, the faults and the permissions of each inbound.
func (a *agreement) inbounds() {
	for i := range a.spec.Networking.Inbound {
		in := &a.spec.Networking.Inbound[i]
		at := fmt.Sprintf("%s:%d", a.spec.Networking.Address, in.Port)
		l := listenerOf(a.t, a.set, "inbound:"+at)
		if l == nil {
			a.t.Errorf("there is no inbound at %s", at)
			continue
		}
		place := &shownPlace{}
		for j := range a.places {
			if p := &a.places[j]; p.Type == "inbound" && strings.HasPrefix(p.Name, at+":") {
				place = p
			}
		}
		if l.routes != nil {
			var limits, faults []string
			for _, n := range place.Effective.RateLimit {
				limits = append(limits, fmt.Sprint(n.HTTP.Requests))
			}
			for _, f := range place.Effective.FaultInjection {
				faults = append(faults, fmt.Sprint(f.Conf.Abort.HTTPStatus))
			}
			if has := l.limits(); len(has) > 0 || len(limits) > 0 {
				a.limited(at, limits, has)
			}
			a.same("faults", at, faults, l.faults())
		}
		a.permissions(at, place, l.routes != nil)
	}
}

// limited compares limits. Those of a source that another one covers are shown and not needed.
func (a *agreement) limited(at string, shown, has []string) {
	if len(has) == 0 || len(shown) == 0 || has[0] != shown[0] && !slices.Contains(has, shown[0]) {
		a.t.Errorf("the limits at %s are %v, and the proxy has %v", at, shown, has)
	}
	for _, n := range has {
		if !slices.Contains(shown, n) {
			a.t.Errorf("the proxy limits at %s to %s, and inspection says %v", at, n, shown)
		}
	}
	a.seen["limits"] += len(has)
}

// permissions compares who may call an inbound as a proxy of the mesh, and who needs a token. A proxy
// of several services is several callers.
func (a *agreement) permissions(at string, place *shownPlace, http bool) {
	if a.d.w.mode == "" {
		return // nobody says who it is
	}
	proxy := &interpret.Proxy{Set: a.set, Check: func(contract.Hash, string) engine.Found { return engine.Found{Answer: contract.Unknown} }}
	l, err := proxy.Find(a.t.Context(), netip.MustParseAddrPort(at))
	if err != nil || l == nil {
		a.t.Fatalf("%s: %v", at, err)
	}
	for _, name := range a.d.w.joined {
		caller := a.d.spec(a.d.w.meshes().Policies, name)
		if len(caller.Networking.Inbound) != 1 {
			continue
		}
		c := interpret.Connection{TLS: true, Protocols: []string{mesh.ALPN}, Peer: explain.Names(a.d.w.name, caller)}
		out, err := proxy.Arrive(l, c, &interpret.Request{
			Method: "GET", Scheme: "http", Host: "x", Path: "/", Headers: []interpret.Header{{Name: "authorization", Value: "Bearer unknown"}},
		})
		if err != nil {
			a.t.Fatalf("%s calls %s: %v", name, at, err)
		}
		last := out.Steps[len(out.Steps)-1].Kind // nobody lets in whom no rule permits any request
		refused := out.Reply != nil && (last == interpret.StepPermission || last == interpret.StepConnection)
		says, may := a.says(at, place, caller.Networking.Inbound[0].Tags)
		if may == refused {
			a.t.Errorf("%s calls %s: %s %t, and the proxy refuses it: %t", name, at, says, may, refused)
		}
		a.seen[says]++
		a.seen["in "+a.d.w.mode]++
		if may && http {
			a.tokens(at, name, caller.Networking.Inbound[0].Tags, out)
		}
	}
}

// tokens compares who needs a token that is known. The one of the request is not. A fault may come
// before.
func (a *agreement) tokens(at, name string, tags mesh.Tags, out *interpret.Passage) {
	last, status := out.Steps[len(out.Steps)-1].Kind, uint32(0)
	if out.Reply != nil {
		status = out.Reply.Status
	}
	if last == interpret.StepFault && out.Reply != nil {
		return
	}
	says, want := "no tokens demanded", uint32(0)
	for i := range a.rules {
		r := &a.rules[i]
		if r.PolicyType != "MeshTokenAuth" || r.Name != at {
			continue
		}
		if inSubset(r.Subset, tags) {
			says, want = "tokens demanded", 401
			break
		}
		says, want = "no tokens taken", 403 // those of others are
	}
	if status != want || want == 401 && last != interpret.StepToken {
		a.t.Errorf("%s calls %s with an unknown token: %s, and the proxy answers %d at %s", name, at, says, status, last)
	}
	a.seen[says]++
}

// says is what inspection says of a caller with some tags: the rules, or else the permission.
func (a *agreement) says(at string, place *shownPlace, tags mesh.Tags) (says string, may bool) {
	ruled := false
	for i := range a.rules {
		r := &a.rules[i]
		if r.PolicyType != "MeshTrafficPermission" || r.Name != at {
			continue
		}
		if ruled = true; inSubset(r.Subset, tags) {
			if r.Conf.Action == "Deny" {
				return "rules refuse", false
			}
			return "rules permit", true
		}
	}
	if ruled {
		return "rules refuse", false
	}
	if p := place.Effective.TrafficPermission; p != nil {
		if slices.ContainsFunc(p.Sources, func(s mesh.Selector) bool { return mesh.Matches(s.Match, tags) }) {
			return "permitted", true
		}
	}
	return "refused", false
}

// inSubset reports whether tags are in a subset: all of its values, with ! none of them.
func inSubset(subset map[string]string, tags mesh.Tags) bool {
	for key, want := range subset {
		for value := range strings.SplitSeq(want, ",") {
			plain, not := strings.CutPrefix(value, "!")
			has := tags[key] == plain || plain == mesh.AnyValue && tags[key] != ""
			if has == not {
				return false
			}
		}
	}
	return true
}
