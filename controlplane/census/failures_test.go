package census_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestEveryStoreCallFailsOnce: nothing is counted wrongly because the store failed, and it is counted
// in the end: at the start, and after a change.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	for name, changed := range map[string]bool{"start": false, "change": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				storetest.EveryCallFailsOnce(t, func() storetest.Trial { return counting(t, changed) })
			})
		})
	}
}

// counting is the start of a census, or with changed what it does about one write.
func counting(t *testing.T, changed bool) storetest.Trial {
	still := func() time.Time { return time.Unix(0, 0) }
	points, log := &storetest.Failpoints{Store: memstore.Open(memstore.Options{Now: still})}, &storetest.Complaints{}
	c := census.New(census.Options{
		Store: points, Kinds: kinds(), Log: slog.New(log), Now: still,
		Insight: func(string, string) *insight.DataplaneInsight { return nil },
		Online:  func(*model.Kind, string) bool { return true },
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	run := func() {
		if changed {
			storetest.Place(t, points.Store, mesh.Dataplanes, "m", "b", plain("api"))
			return
		}
		go func() { done <- c.Run(ctx) }()
	}
	storetest.Place(t, points.Store, mesh.Meshes, "", "m", &mesh.Mesh{})
	storetest.Place(t, points.Store, mesh.Dataplanes, "m", "a", plain("web"))
	storetest.Place(t, points.Store, mesh.Zones, "", "east", &mesh.Zone{})
	if changed {
		go func() { done <- c.Run(ctx) }()
		if _, _, err := c.Now(ctx); err != nil {
			t.Fatal(err)
		}
	}
	counted := ""
	act := func() error {
		if run != nil {
			run()
			run = nil
		}
		patience, enough := context.WithTimeout(ctx, time.Minute)
		defer enough()
		s, now, err := c.Now(patience)
		if err != nil {
			return err
		}
		text, err := json.Marshal([]any{s.All(now), s.Zones(), s.Meshes()[0].Insight(), s.Meshes()[0].Services()})
		counted = string(text)
		return err
	}
	return storetest.Trial{Points: points, Complaints: log, Act: act, State: func() string { return counted }, End: func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if err := points.Close(); err != nil {
			t.Error(err)
		}
	}}
}

// TestUnreadableRows: what cannot be read exists and nothing else is known of it, whether it became so
// while the census runs or was so at its start.
func TestUnreadableRows(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.end()
	bad, log := &storetest.Unreadable{Store: w.store}, &storetest.Complaints{}
	w.store, w.log = bad, log
	w.begin()
	external := &mesh.ExternalService{Networking: &mesh.ExternalNetworking{Address: "x.example:1"}, Tags: mesh.Tags{mesh.TagService: "mail"}}
	put := func() {
		w.put(mesh.Dataplanes, "m", "a", plain("web"))
		w.put(mesh.ExternalServices, "m", "x", external)
		w.put(mesh.Zones, "", "on", &mesh.Zone{})
		w.put(mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{})
	}
	spoil := func(yes bool) {
		bad.Spoil(mesh.Dataplanes, "m", "a", yes)
		bad.Spoil(mesh.ExternalServices, "m", "x", yes)
		bad.Spoil(mesh.Zones, "", "on", yes)
		bad.Spoil(mesh.ZoneIngresses, "", "in", yes)
	}
	w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
	put()
	w.connect("m", "a")
	w.open(mesh.ZoneNodeID(mesh.ProxyIngress, "in"))
	w.compare("readable")

	spoil(true)
	put()
	got := w.shown()
	in := got.Meshes["m"]
	if in.Dataplanes != (census.Counts{Total: 1, Offline: 1}) || in.Services != (census.Services{Total: 1, External: 1}) || len(got.Services) != 0 {
		t.Errorf("in the mesh: %+v, %v", in, got.Services)
	}
	if d := cmp.Diff(map[string]census.Total{"Dataplane": {Total: 1}, "ExternalService": {Total: 1}}, in.Resources); d != "" {
		t.Error(d)
	}
	one := census.Present{Online: 1, Total: 1}
	if got.All.Zones != (census.AllZones{ControlPlanes: one, ZoneIngresses: one}) {
		t.Errorf("of zones: %+v", got.All.Zones)
	}
	if active, listed := got.Zones["on"]; active || !listed {
		t.Errorf("zones: %v", got.Zones)
	}

	spoil(false)
	put()
	w.compare("readable again")
	spoil(true)
	put()
	before := w.shown()
	w.end()
	w.begin()
	w.connect("m", "a")
	w.open(mesh.ZoneNodeID(mesh.ProxyIngress, "in"))
	if d := cmp.Diff(before, w.shown(), times); d != "" {
		t.Errorf("at a start (-changed +counted anew):\n%s", d)
	}
	if log.String() != "" {
		t.Errorf("it was given up to count: %s", log)
	}
}
