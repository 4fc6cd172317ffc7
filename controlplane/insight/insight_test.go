package insight_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/resource"
)

const wire = `{
  "subscriptions": [
    {
      "id": "0",
      "controlPlaneInstanceId": "cp-1",
      "connectTime": "2000-01-01T00:00:00Z",
      "status": {
        "lastUpdateTime": "2000-01-01T00:00:02Z",
        "total": {
          "responsesSent": "3",
          "responsesAcknowledged": "2",
          "responsesRejected": "1"
        },
        "cds": {
          "responsesSent": "1",
          "responsesAcknowledged": "1"
        },
        "eds": {},
        "lds": {
          "responsesSent": "1",
          "responsesRejected": "1"
        },
        "rds": {}
      },
      "version": {
        "meshDp": {
          "version": "1.0.0",
          "gitTag": "",
          "gitCommit": "",
          "buildDate": "",
          "meshCpCompatible": true
        },
        "proxy": {
          "version": "1.39.3",
          "build": "b/1.39.3",
          "meshDpCompatible": true
        },
        "dependencies": {
          "dns": "1"
        }
      },
      "rejected": {
        "lds": {
          "time": "2000-01-01T00:00:02Z",
          "error": "no such filter"
        }
      }
    }
  ],
  "mTLS": {
    "certificateExpirationTime": "2000-01-02T00:00:00Z",
    "lastCertificateRegeneration": "2000-01-01T00:00:00Z",
    "certificateRegenerations": 1,
    "issuedBackend": "ca",
    "supportedBackends": [
      "default-1",
      "default-2"
    ]
  }
}`

// TestWire: counters are strings, zeros are omitted, and responses with secrets count only
// in the total.
func TestWire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Described("default.web", insight.Versions{
			MeshDP:       insight.AgentVersion{Version: "1.0.0", MeshCPCompatible: true},
			Proxy:        insight.ProxyVersion{Version: "1.39.3", Build: "b/1.39.3", MeshDPCompatible: true},
			Dependencies: map[string]string{"dns": "1"},
		})
		if r.read("web") != nil {
			t.Error("a proxy that did not connect has an insight")
		}
		r.Connected(event("web", 1))
		r.Issued("default", "web", "ca", time.Now().Add(24*time.Hour), time.Now())
		r.Issued("default", "web", "ca", time.Now().Add(24*time.Hour), time.Now())
		r.Sent(typed("web", 1, resource.Cluster))
		r.Acknowledged(typed("web", 1, resource.Cluster))
		r.Sent(typed("web", 1, resource.Secret))
		r.Acknowledged(typed("web", 1, resource.Secret))
		time.Sleep(2 * time.Second)
		r.Sent(typed("web", 1, resource.Listener))
		e := typed("web", 1, resource.Listener)
		e.Error = "no such filter"
		r.Rejected(e)
		if d := cmp.Diff(wire, shown(t, r.read("web"))); d != "" {
			t.Errorf("insight (-want +got):\n%s", d)
		}
	})
}

// TestSubscriptions: a new stream closes the older one, and two are kept. Later events of
// the older stream are ignored.
func TestSubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		want := func(when string, online bool, closed ...bool) {
			t.Helper()
			in := r.read("web")
			var got []bool
			for _, s := range in.Subscriptions {
				got = append(got, s.DisconnectTime != nil)
			}
			if d := cmp.Diff(closed, got); d != "" || in.Online() != online {
				t.Errorf("%s: online %v, closed (-want +got):\n%s", when, in.Online(), d)
			}
		}
		r.Connected(event("web", 1))
		want("first", true, false)
		time.Sleep(time.Second)
		r.Connected(event("web", 2))
		want("second", true, true, false)
		if at := r.read("web").Subscriptions[0].DisconnectTime; time.Since(*at) != 0 {
			t.Errorf("the older one was closed at %v", at)
		}
		time.Sleep(time.Second)
		r.Disconnected(event("web", 1))
		want("the older one ended late", true, true, false)
		if at := r.read("web").Subscriptions[0].DisconnectTime; time.Since(*at) != time.Second {
			t.Errorf("the older one was closed anew at %v", at)
		}
		r.Connected(event("web", 3))
		want("third", true, true, false)
		r.Disconnected(event("web", 3))
		want("the newer one ended first", true, false, true)
		r.Disconnected(event("web", 2))
		want("all ended", false, true, true)
		r.Sent(typed("web", 2, resource.Cluster))
		if n := r.read("web").Subscriptions[0].Status.Total.Sent; n != 0 {
			t.Errorf("a stream that ended counts %d", n)
		}
	})
}

// TestWhatIsOfNoNodeIsIgnored: ids that no node has, unknown streams, and events after the end.
func TestWhatIsOfNoNodeIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, node := range []string{
			"cp/default", "cp//a", "cp/default/", "cp/default/a/b", "default", "default.", ".web", "",
			"zone/ingress", "zone/ingress/", "zone/ingress/a/b", "zone//a", "zone/sidecar/a", "zone/none/a",
		} {
			e := event("x", 1)
			e.Node = node
			r.Connected(e)
			r.Described(node, insight.Versions{})
			r.Disconnected(e)
		}
		r.Sent(typed("web", 7, resource.Cluster))
		r.Disconnected(event("web", 7))
		r.close()
		r.Connected(event("web", 8))
		r.Issued("default", "web", "ca", time.Now().Add(time.Hour), time.Now())
		pass(insight.Interval)
		if all, err := r.List(t.Context(), "default"); err != nil || len(all) > 0 {
			t.Errorf("%v, %v", all, err)
		}
		if nodes := r.Nodes(); len(nodes) > 0 {
			t.Errorf("nodes %v", nodes)
		}
		if puts := r.store.taken(); len(puts) > 0 {
			t.Errorf("transactions %v", puts)
		}
	})
}

// TestHostileTexts: the texts of a proxy are cut, and stay valid UTF-8.
func TestHostileTexts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		long := strings.Repeat("ä", 100_000)
		v := insight.Versions{
			MeshDP:       insight.AgentVersion{Version: long, GitTag: long, GitCommit: long, BuildDate: long},
			Proxy:        insight.ProxyVersion{Version: long, Build: long},
			Dependencies: map[string]string{},
		}
		for i := range 1000 {
			v.Dependencies[fmt.Sprintf("%d%s", i, long[:200])] = long
		}
		// A proxy that reconnects all the time keeps its insight small.
		for i := range uint64(1000) {
			r.Described("default.web", v)
			r.Connected(event("web", i))
			for _, typ := range resource.Types {
				e := typed("web", i, typ)
				e.Error = "x" + long
				r.Sent(e)
				r.Rejected(e)
			}
			r.Disconnected(event("web", i))
			time.Sleep(time.Millisecond)
		}
		pass(time.Second)
		row := r.stored("web")
		if len(row) == 0 || len(row) > 32<<10 {
			t.Errorf("the row has %d bytes", len(row))
		}
		in := r.read("web")
		if len(in.Subscriptions) != 2 {
			t.Errorf("%d subscriptions", len(in.Subscriptions))
		}
		for typ, n := range in.Last().Rejected {
			if len(n.Error) > 1024 || strings.ToValidUTF8(n.Error, "?") != n.Error {
				t.Errorf("%s: %d bytes: %q", typ, len(n.Error), n.Error)
			}
		}
		if n := len(in.Last().Version.Dependencies); n != 16 {
			t.Errorf("%d dependencies", n)
		}
		// 1,000 reconnects in a second are written every 20 ms, one row each time.
		if puts := r.store.taken(); len(puts) == 0 || len(puts) > 60 {
			t.Errorf("%d transactions", len(puts))
		}
	})
}

func TestStatus(t *testing.T) {
	open := &insight.DataplaneInsight{Subscriptions: []insight.Subscription{{}}}
	now := time.Now()
	closed := &insight.DataplaneInsight{Subscriptions: []insight.Subscription{{DisconnectTime: &now}}}
	ready, ignored := mesh.Inbound{Health: &mesh.Health{Ready: true}}, mesh.Inbound{State: mesh.StateIgnored}
	down, unhealthy := mesh.Inbound{State: mesh.StateNotReady}, mesh.Inbound{Health: &mesh.Health{}}
	for _, tc := range []struct {
		name string
		in   *insight.DataplaneInsight
		of   []mesh.Inbound
		want string
	}{
		{"never seen", nil, []mesh.Inbound{ready}, insight.Offline},
		{"gone", closed, []mesh.Inbound{ready}, insight.Offline},
		{"connected", open, []mesh.Inbound{ready, {}}, insight.Online},
		{"some not ready", open, []mesh.Inbound{ready, down}, insight.PartiallyDegraded},
		{"some unhealthy", open, []mesh.Inbound{unhealthy, {}}, insight.PartiallyDegraded},
		{"none ready", open, []mesh.Inbound{down, unhealthy}, insight.Offline},
		{"ignored", open, []mesh.Inbound{ignored}, insight.Online},
		{"gateway", open, nil, insight.Online},
		{"gateway that is gone", closed, nil, insight.Offline},
	} {
		d := &mesh.Dataplane{Networking: &mesh.Networking{Inbound: tc.of}}
		if got := insight.Status(d, tc.in); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := insight.Status(&mesh.Dataplane{}, open); got != insight.Online {
		t.Errorf("without networking: %s", got)
	}
}
