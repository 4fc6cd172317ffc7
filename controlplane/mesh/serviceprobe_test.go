package mesh_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestReadinessIsKept: what is stored of an inbound when its author writes the dataplane.
func TestReadinessIsKept(t *testing.T) {
	const probe = `"serviceProbe":{"tcp":{}}`
	const ready, unready, ignored = `"health":{"ready":true}`, `"state":"NotReady","health":{}`, `"state":"Ignored"`
	for name, tt := range map[string]struct{ old, sent, want string }{
		"a creation":                   {"", probe, probe + "," + unready},
		"a creation that says ready":   {"", probe + "," + ready, probe + "," + unready},
		"a creation that is ignored":   {"", probe + "," + ignored, probe + "," + ignored},
		"a creation without a probe":   {"", `"name":"a"`, `"name":"a"`},
		"nothing is said of a ready":   {probe + "," + ready, probe, probe + "," + ready},
		"nothing is said of an absent": {probe + "," + unready, probe, probe + "," + unready},
		"something is said":            {probe + "," + unready, probe + "," + ready, probe + "," + ready},
		"the probe is new":             {`"name":"a"`, probe, probe},
		"the probe is gone":            {probe + "," + unready, `"name":"a"`, `"name":"a"`},
		"ignored no more":              {probe + "," + ignored, probe, probe + "," + unready},
		"ignored from now on":          {probe + "," + ready, probe + "," + ignored, probe + "," + ignored},
		"another port":                 {`"port":2,` + probe + "," + ready, probe, probe + "," + unready},
		"another workload's port":      {`"servicePort":2,` + probe + "," + ready, probe, probe + "," + unready},
		"the port is said":             {probe + "," + ready, `"servicePort":1,` + probe, `"servicePort":1,` + probe + "," + ready},
		"another workload's address":   {probe + "," + ready, `"serviceAddress":"10.0.0.3",` + probe + "," + ready, `"serviceAddress":"10.0.0.3",` + probe + "," + unready},
		"elsewhere, the probe is new":  {`"servicePort":2`, probe, probe + "," + unready},
		"another address":              {`"address":"10.0.0.2",` + probe + "," + ready, probe, probe + "," + unready},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(inbound string) *mesh.Dataplane {
				d := new(mesh.Dataplane)
				if err := json.Unmarshal([]byte(`{"networking":{"address":"10.0.0.1","inbound":[{"port":1,`+inbound+`}]}}`), d); err != nil {
					t.Fatal(err)
				}
				return d
			}
			var old *model.Resource
			if tt.old != "" {
				old = &model.Resource{Spec: of(tt.old)}
			}
			sent := of(tt.sent)
			got := mesh.Dataplanes.Document.Keep(old, sent)
			if diff := cmp.Diff(of(tt.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(of(tt.sent), sent); diff != "" {
				t.Errorf("what was sent is written to:\n%s", diff)
			}
		})
	}
	if got := mesh.Dataplanes.Document.Keep(nil, &mesh.Dataplane{}).(*mesh.Dataplane); got.Networking != nil {
		t.Error(got)
	}
}

// TestMovedProxyIsNew: what was found behind one address says nothing of another one, whoever the
// agent is. Another agent at the same address keeps what was found.
func TestMovedProxyIsNew(t *testing.T) {
	of := func(change func(*mesh.Dataplane)) *mesh.Dataplane {
		d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 1, ServiceProbe: &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}}}}}
		change(d)
		return d
	}
	old := of(func(d *mesh.Dataplane) { d.Networking.Inbound[0].SetReady(true) })
	for name, tt := range map[string]struct {
		change func(*mesh.Dataplane)
		ready  bool
	}{
		"the same":      {func(*mesh.Dataplane) {}, true},
		"another agent": {func(d *mesh.Dataplane) { d.SetLabels(map[string]string{mesh.LabelInstance: "b"}) }, true},
		"an address":    {func(d *mesh.Dataplane) { d.Networking.Address = "10.0.0.2" }, false},
		"advertised":    {func(d *mesh.Dataplane) { d.Networking.AdvertisedAddress = "192.0.2.1" }, false},
		"and its author says": {func(d *mesh.Dataplane) {
			d.Networking.Address = "10.0.0.2"
			d.Networking.Inbound[0].SetReady(true)
		}, false},
	} {
		got := mesh.Dataplanes.Document.Keep(&model.Resource{Spec: old}, of(tt.change)).(*mesh.Dataplane)
		if got.Networking.Inbound[0].IsReady() != tt.ready {
			t.Errorf("%s: ready is %t", name, !tt.ready)
		}
	}
}

// TestSetReady: callers get an inbound as what was last set, whatever it was before.
func TestSetReady(t *testing.T) {
	in := mesh.Inbound{State: mesh.StateIgnored}
	for _, ready := range []bool{false, true, false} {
		if in.SetReady(ready); in.IsReady() != ready {
			t.Error(in)
		}
	}
}
