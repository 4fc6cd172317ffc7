package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
)

// TestWaitingOfTheOwnLog: what is for sinks alone, because the log of the control plane is off, waits for no webhook
// though its receiver has not got the end of the log, and is not lost for it.
func TestWaitingOfTheOwnLog(t *testing.T) {
	w := newWorld(t)
	c, r := newCollector(t, "127.0.0.1:0"), newReceiver(t)
	r.answers = slices.Repeat([]int{http.StatusServiceUnavailable}, 100)
	w.sinks, w.own = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}, true
	w.hook("p", r, false) // which makes the destination
	w.start()
	until(t, "the setting", func() bool { return w.sinksTake(own) })
	w.administered("on", w.turns(r, true))
	w.administered("off", w.turns(r, false))
	<-w.held // it has failed as a whole
	for i := range 7 {
		w.administered(fmt.Sprint("unseen", i), nil)
	}
	if events, _, err := w.engine.Waiting(t.Context()); events != 2 || err != nil {
		t.Errorf("%d wait, %v", events, err)
	}
	until(t, "the sink", func() bool { return w.sent(c, own) == 9 })
	w.pass(old)
	w.hour()
	if n, s := len(w.kept(own)), w.engine.Stats(); n != 0 || s.Expired != 2 {
		t.Errorf("%d are left, %+v", n, s)
	}
}

// TestWaitingForAnUnreadableWebhook: events wait for a webhook that cannot be read.
func TestWaitingForAnUnreadableWebhook(t *testing.T) {
	w, spoilt := onDisk(t)
	w.hook("p", newReceiver(t), true)
	w.happen("p", 0, 3)
	spoilt(cloud.Webhooks, "p")
	e := &Engine{Options: Options{Store: w.s}}
	if events, inactive, err := e.Waiting(t.Context()); events != 3 || inactive != 0 || err != nil {
		t.Errorf("%d wait, %d are inactive, %v", events, inactive, err)
	}
}
