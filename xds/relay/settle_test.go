package relay

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// answers is a stream to a control plane that records the answers, by nonce.
type answers struct {
	upstreamClient
	texts map[string]string
	// before, if set, is called with the nonce of each answer.
	before func(nonce string)
}

func (a *answers) Send(m *discovery.DeltaDiscoveryRequest) error {
	if a.before != nil {
		a.before(m.GetResponseNonce())
	}
	a.texts[m.GetResponseNonce()] = m.GetErrorDetail().GetMessage()
	return nil
}

func (a *answers) is(t *testing.T, nonce, text string) {
	t.Helper()
	if got, answered := a.texts[nonce]; !answered || got != text {
		t.Errorf("response %s: answered %v with %q, not with %q", nonce, answered, got, text)
	}
}

// settling returns a relay whose Envoy is played by a subscription.
func settling(t *testing.T) (*Relay, *answers) {
	t.Helper()
	r, err := New(Config{
		Password: "password", Node: "n", Socket: "unused", Cache: filepath.Join(t.TempDir(), "cache"), Log: slog.New(slog.DiscardHandler),
		Dial: func(context.Context) (*grpc.ClientConn, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, &answers{texts: map[string]string{}}
}

func clusters(nonce string, names ...string) *discovery.DeltaDiscoveryResponse {
	m := &discovery.DeltaDiscoveryResponse{TypeUrl: string(resource.Cluster), Nonce: nonce}
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), nonce) // the name, in every type
	for _, name := range names {
		m.Resources = append(m.Resources, &discovery.Resource{Name: name, Version: nonce, Resource: &anypb.Any{Value: body}})
	}
	return m
}

// answer makes the Envoy answer everything that it was sent.
func answer(sub *snapshot.Subscription, rejected ...snapshot.Rejection) {
	for i := range rejected {
		rejected[i].Type = resource.Cluster
	}
	st := sub.State()
	sub.Reject(rejected)
	sub.Confirm(st)
}

// One response to Envoy may combine several responses of the control plane. Envoy's refusal is
// passed on for those that it mentions. The others are confirmed once Envoy has accepted them;
// otherwise they would stay refused for ever.
func TestRefusalIsToldOfWhatItSpeaksOf(t *testing.T) {
	for name, order := range map[string][]string{"first": {"bad", "good"}, "last": {"good", "bad"}} {
		t.Run(name, func(t *testing.T) {
			r, up := settling(t)
			sub := r.local.Subscribe("n")
			defer sub.Close()
			var open []pending
			for _, name := range order {
				open = append(open, r.apply(clusters("of-"+name, name)))
			}
			answer(sub, snapshot.Rejection{Error: "bad: no", Resources: []string{"bad", "good"}})
			open, err := r.settle(up, open)
			if err != nil {
				t.Fatal(err)
			}
			up.is(t, "of-bad", "bad: no")
			if text, answered := up.texts["of-good"]; answered {
				t.Errorf("the other is answered with %q before Envoy has taken it", text)
			}
			answer(sub)
			if open, err = r.settle(up, open); err != nil || len(open) > 0 {
				t.Fatalf("%d are open: %v", len(open), err)
			}
			up.is(t, "of-good", "")
			if r.good[resource.Cluster]["bad"] != nil || r.good[resource.Cluster]["good"] == nil {
				t.Errorf("good are %v", r.good[resource.Cluster])
			}
		})
	}
}

// One response of the control plane may reach Envoy as several, each of which it refuses.
// Nothing that Envoy refused counts as good.
func TestEveryRefusalOfAResponseCounts(t *testing.T) {
	r, up := settling(t)
	sub := r.local.Subscribe("n")
	defer sub.Close()
	open := []pending{r.apply(clusters("1", "a", "b", "c"))}
	answer(sub,
		snapshot.Rejection{Error: "a: no", Resources: []string{"a"}},
		snapshot.Rejection{Error: "b: no", Resources: []string{"b", "c"}})
	if _, err := r.settle(up, open); err != nil {
		t.Fatal(err)
	}
	up.is(t, "1", "a: no; b: no")
	good := r.good[resource.Cluster]
	if len(good) != 1 || good["c"] == nil {
		t.Errorf("good are %v", good)
	}
}

// An update that Envoy refuses takes nothing away: Envoy keeps its previous version.
func TestRefusedUpdateTakesNothingAway(t *testing.T) {
	r, up := settling(t)
	sub := r.local.Subscribe("n")
	defer sub.Close()
	listener := func(nonce string) *discovery.DeltaDiscoveryResponse {
		m := clusters(nonce, "in")
		m.TypeUrl = string(resource.Listener)
		return m
	}
	refuse := func() {
		st := sub.State()
		sub.Reject([]snapshot.Rejection{{Type: resource.Listener, Error: "in: no", Resources: []string{"in"}}})
		sub.Confirm(st)
	}
	open := []pending{r.apply(listener("1"))}
	refuse()
	if got := r.Refused(); got["in"] != "in: no" {
		t.Errorf("the first one is refused: %v", got)
	}
	answer(sub)
	if _, err := r.settle(up, open); err != nil || len(r.Refused()) > 0 {
		t.Fatalf("%v %v", r.Refused(), err)
	}
	open = []pending{r.apply(listener("2"))}
	refuse()
	if got := r.Refused(); len(got) > 0 {
		t.Errorf("until the one before returns it lacks %v", got)
	}
	if _, err := r.settle(up, open); err != nil || up.texts["2"] != "in: no" || len(r.Refused()) > 0 {
		t.Errorf("%v %v %v", r.Refused(), up.texts, err)
	}
	// The refusal stands until Envoy has answered what it is served instead.
	if r.disown(nil) || r.good[resource.Listener]["in"] == nil || r.current[resource.Listener]["in"] != r.good[resource.Listener]["in"] {
		t.Error("the one before is not back")
	}
	answer(sub)
	if r.disown(nil) || len(r.Refused()) > 0 {
		t.Errorf("when it is back it lacks %v", r.Refused())
	}
	refuse() // for example by another Envoy
	if got := r.Refused(); got["in"] != "in: no" || !r.disown(nil) || r.good[resource.Listener]["in"] != nil {
		t.Errorf("what is good is refused: %v", got)
	}
}

// TestNothingIsConfirmedBeforeItIsOnDisk: once the removal of a permission is confirmed, the
// permission does not return with a proxy that starts after a power failure.
func TestNothingIsConfirmedBeforeItIsOnDisk(t *testing.T) {
	r, up := settling(t)
	sub := r.local.Subscribe("n")
	defer sub.Close()
	open := []pending{r.apply(clusters("1", "a", "b"))}
	answer(sub)
	open, err := r.settle(up, open)
	if err != nil {
		t.Fatal(err)
	}
	gone := clusters("2")
	gone.RemovedResources = []string{"a"}
	open = append(open, r.apply(gone), r.apply(clusters("3", "c")))
	answer(sub)
	told := 0
	up.before = func(nonce string) {
		told++
		stored, err := (&cache{path: r.cfg.Cache, node: "n"}).load()
		if err != nil {
			t.Fatal(err)
		}
		if has := stored[resource.Cluster]; has["a"] != nil || has["c"] == nil {
			t.Errorf("when response %s is confirmed the disk holds %v", nonce, has)
		}
	}
	if _, err := r.settle(up, open); err != nil || told != 2 {
		t.Fatalf("%d are confirmed: %v", told, err)
	}
}

// TestFullDiskHoldsUpNoConfirmation: what cannot be saved is confirmed nevertheless.
func TestFullDiskHoldsUpNoConfirmation(t *testing.T) {
	r, up := settling(t)
	r.cache.path = filepath.Join(t.TempDir(), "not", "there")
	sub := r.local.Subscribe("n")
	defer sub.Close()
	open := []pending{r.apply(clusters("1", "a"))}
	answer(sub)
	if _, err := r.settle(up, open); err != nil || !r.unsaved {
		t.Fatalf("unsaved %v: %v", r.unsaved, err)
	}
	up.is(t, "1", "")
}

// TestNoEnvoyForLong: responses that are confirmed while no Envoy is connected take room for
// their content, however often it changed. The next Envoy confirms all of it.
func TestNoEnvoyForLong(t *testing.T) {
	r, up := settling(t)
	var open []pending
	last := 0
	come := func(m *discovery.DeltaDiscoveryResponse) {
		t.Helper()
		var err error
		if open, err = r.early(up, append(open, r.apply(m))); err != nil {
			t.Fatal(err)
		}
	}
	change := func(typ resource.TypeURL, remove []string, names ...string) {
		t.Helper()
		last++
		m := clusters(strconv.Itoa(last), names...)
		m.TypeUrl, m.RemovedResources = string(typ), remove
		come(m)
	}
	change(resource.Cluster, nil, "a", "b")
	for range 100 {
		change(resource.Endpoint, nil, "a", "b")
		change(resource.Cluster, nil, "b", "c")
		change(resource.Cluster, []string{"c"}, "d")
		change(resource.Endpoint, nil)
		change(resource.Cluster, []string{"a", "d"}, "c")
		change(resource.Cluster, []string{"c"}, "d")
	}
	if len(open) > 1+len(resource.Types) {
		t.Errorf("%d responses are remembered", len(open))
	}
	if _, answered := up.texts["1"]; answered || len(up.texts) != last-1 {
		t.Errorf("%d of %d are confirmed, the oldest: %v", len(up.texts), last, answered)
	}
	sub := r.local.Subscribe("n")
	defer sub.Close()
	change(resource.Listener, nil, "in") // while it is being served
	answer(sub)
	open, err := r.settle(up, open)
	if err != nil || len(open) > 0 {
		t.Fatalf("%d are open: %v", len(open), err)
	}
	up.is(t, "1", "")
	up.is(t, strconv.Itoa(last), "")
	if len(up.texts) != last {
		t.Errorf("%d answers to %d responses", len(up.texts), last)
	}
	stored, err := (&cache{path: r.cfg.Cache, node: "n"}).load()
	if err != nil {
		t.Fatal(err)
	}
	want := map[resource.TypeURL][]string{
		resource.Cluster: {"b", "d"}, resource.Endpoint: {"a", "b"}, resource.Listener: {"in"},
	}
	for _, of := range []table{r.good, stored} {
		for _, typ := range resource.Types {
			var names []string
			for _, x := range of.of(typ) {
				if names = append(names, x.Name); string(x.Body) != string(r.current[typ][x.Name].Body) {
					t.Errorf("%s is not the newest", x.Name)
				}
			}
			if !slices.Equal(names, want[typ]) {
				t.Errorf("of %s it has %v", typ, names)
			}
		}
	}
}

// TestRefusalOfWhatWasConfirmedEarly: the stream ends, and the next one gets the content
// again.
func TestRefusalOfWhatWasConfirmedEarly(t *testing.T) {
	r, up := settling(t)
	open := []pending{r.apply(clusters("1", "a"))}
	for _, m := range []*discovery.DeltaDiscoveryResponse{clusters("2", "b"), clusters("3", "c"), clusters("4", "c")} {
		var err error
		if open, err = r.early(up, append(open, r.apply(m))); err != nil {
			t.Fatal(err)
		}
	}
	sub := r.local.Subscribe("n")
	defer sub.Close()
	answer(sub, snapshot.Rejection{Error: "b: no", Resources: []string{"a", "b", "c"}})
	if _, err := r.settle(up, open); !errors.Is(err, errRefusedEarly) {
		t.Fatalf("%v", err)
	}
	if _, answered := up.texts["1"]; answered {
		t.Error("the oldest is confirmed though Envoy refused what came after it")
	}
	want := map[string]string{"a": unconfirmed, "c": unconfirmed}
	if got := r.told(resource.Cluster); got["b"] != "" || !maps.Equal(got, want) {
		t.Errorf("the next stream tells of %v", got)
	}
}
