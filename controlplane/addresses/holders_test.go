package addresses_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/addresses"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/selection"
)

// named serves a service with a tag that gives it the name <app>.shop.
func (w *world) named(service, app string) {
	w.put(mesh.Dataplanes, demo, "d-"+service, &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{
		{Port: 80, Tags: mesh.Tags{mesh.TagService: service, "app": app}},
	}}})
}

// shop gives inbounds names by a tag that whoever registers a proxy chooses.
func (w *world) shop() {
	w.put(mesh.VirtualOutbounds, demo, "shop", &mesh.VirtualOutbound{
		Selectors: []mesh.Selector{{Match: mesh.Tags{"app": "*"}}},
		Conf:      &mesh.VirtualOutboundConf{Host: "{{.app}}.shop", Port: "80", Parameters: []mesh.NameParameter{{Name: "s", TagKey: mesh.TagService}, {Name: "app"}}},
	})
}

// leads returns the service that cart.shop leads to.
func (w *world) leads() string {
	names := selection.NamesOf(w.state())
	for _, n := range names.Known {
		if n.Host == "cart.shop" {
			return n.Tags.Service()
		}
	}
	return ""
}

// TestTheFirstKeepsItsName: a proxy that is registered with the tags of another service does not
// take its name, neither at once nor by waiting until it is away for a while. A name that its
// holder has left for a day is free.
func TestTheFirstKeepsItsName(t *testing.T) {
	w, end := begin(t)
	defer end()
	k := w.keeper()
	step := func(what, want string, do func()) {
		t.Helper()
		do()
		w.keep(k, w.state())
		if got := w.leads(); got != want {
			t.Errorf("%s: the name leads to %q, not %q", what, got, want)
		}
	}
	w.shop()
	step("alone", "shop-cart", func() { w.named("shop-cart", "cart") })
	step("another takes the tag", "shop-cart", func() { w.named("a-thief", "cart") })
	step("the holder is away", "a-thief", func() { w.leave("shop-cart") })
	w.now = w.now.Add(23 * time.Hour)
	step("the holder comes back, and a keeper begins anew", "shop-cart", func() { w.named("shop-cart", "cart"); k = w.keeper() })
	step("the holder leaves", "a-thief", func() { w.leave("shop-cart") })
	w.now = w.now.Add(25 * time.Hour)
	step("a day later", "a-thief", func() { w.serve("else") })
	step("the first comes too late", "a-thief", func() { w.named("shop-cart", "cart") })
}

// TestHoldersAreBounded: ports that tags choose do not make a row grow without end.
func TestHoldersAreBounded(t *testing.T) {
	w, end := begin(t)
	defer end()
	k := w.keeper()
	w.put(mesh.VirtualOutbounds, demo, "all", &mesh.VirtualOutbound{
		Selectors: []mesh.Selector{{Match: mesh.Tags{"port": "*"}}},
		Conf:      &mesh.VirtualOutboundConf{Host: "one.shop", Port: "{{.port}}", Parameters: []mesh.NameParameter{{Name: "s", TagKey: mesh.TagService}, {Name: "port"}}},
	})
	for i := range 4 {
		d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1"}}
		for j := range 100 {
			port := uint32(1000 + 100*i + j)
			d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{Port: port, Tags: mesh.Tags{mesh.TagService: "web", "port": fmt.Sprint(port)}})
		}
		w.put(mesh.Dataplanes, demo, "d", d)
		w.keep(k, w.state())
	}
	holders := w.state().Holders("one.shop")
	if len(holders) != mesh.MaxHolders {
		t.Errorf("%d ports have holders, not %d", len(holders), mesh.MaxHolders)
	}
	for port := range uint32(100) {
		if holders[1300+port].Tags == "" {
			t.Errorf("port %d has no holder", 1300+port)
		}
	}
	at := w.db.Revision()
	w.keep(addresses.New(direct{Store: w.db}, func() time.Time { return w.now }, nil), w.state())
	if w.db.Revision() != at {
		t.Error("what is stored is written again")
	}
}
