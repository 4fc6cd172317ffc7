package delivery

import (
	"maps"
	"math"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestMayEnd: what a receiver has not got may end when the process has run for an hour and the receiver was tried,
// and not before. A webhook that is off is not waited for, unless it is to get the end of the control plane's log.
func TestMayEnd(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.sinks = []syslog.Target{{Network: "tcp", Address: "siem.example.com:8071"}}
	w.hook("on", r, true)
	w.hook("off", r, false)
	w.administered("on", w.turns(r, true))
	w.administered("off", w.turns(r, false))
	w.happen("on", 0, 2)
	w.happen("off", 0, 2)
	e, _ := w.ready()
	e.began = e.Clock.Elapsed()
	const all = math.MaxUint64
	are := func(when string, want map[string]uint64) {
		t.Helper()
		got := map[string]uint64{}
		for portal := range want {
			w.write(func(tx store.Tx) (err error) {
				got[portal], err = e.mayEnd(tx, portal)
				return err
			})
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	none := map[string]uint64{"on": 0, "off": 0, own: 0, "sinks": 0}
	are("at the start", none)
	e.hasTried("on")
	e.sinks[0].tried.Store(true)
	are("after the first try", none)
	w.pass(grace - 1)
	are("just before the hour", none)
	w.pass(1)
	are("after the hour", map[string]uint64{"on": all, "off": all, own: 0, "sinks": all})
	e.hasTried(own)
	are("after the end was tried", map[string]uint64{own: all})
	e.sinks[0].tried.Store(false)
	are("without a try of the sink", map[string]uint64{"on": 0, "off": 0, own: all, "sinks": 0})
}

// TestNoDestinationToTry: events of a webhook whose destination cannot be read end, though nothing can be tried there.
func TestNoDestinationToTry(t *testing.T) {
	w, spoilt := onDisk(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.happen("p", 0, 3)
	spoilt(cloud.Destinations, "to-"+r.URL)
	w.pass(old)
	w.hold = true
	w.start()
	<-w.held
	w.hour()
	if n, s := len(w.kept("p")), w.engine.Stats(); n != 0 || s.Expired != 3 {
		t.Errorf("%d are left, %+v", n, s)
	}
}

// TestBrokenOffIsNoTry: a delivery that is broken off because the webhook is led elsewhere says nothing of the
// receiver that it is led to.
func TestBrokenOffIsNoTry(t *testing.T) {
	w := newWorld(t)
	down, slow := newReceiver(t, 503), newReceiver(t)
	slow.silent = make(chan struct{})
	w.hook("p", down, true)
	w.happen("p", 0, 1)
	w.hold = true
	w.start()
	<-w.held // between two attempts
	w.hook("p", slow, true)
	<-slow.seen
	if w.engine.wasTried("p") {
		t.Error("the receiver was tried")
	}
	close(slow.silent)
}
