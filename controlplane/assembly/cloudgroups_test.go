package assembly

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestCertificatesOfEveryControlPlane: the ends of certificates are shown, told and listed for each
// control plane, which is named if there are several.
func TestCertificatesOfEveryControlPlane(t *testing.T) {
	const team, early, late = "10000000-0000-4000-8000-000000000000", "20000000-0000-4000-8000-000000000000", "30000000-0000-4000-8000-000000000000"
	s := memstore.New()
	defer func() { _ = s.Close() }()
	put := func(k *model.Kind, scope, name string, spec any) {
		t.Helper()
		_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	now := time.Now().Truncate(time.Second)
	put(gateway.Certificates, model.DefaultControlPlane, late, &gateway.Certificate{Cert: string(authorityUntil(t, now.Add(90*day)))})
	e := &expiries{store: s, authority: func() []byte { return nil }, log: slog.New(slog.DiscardHandler), desc: prometheus.NewDesc("a", "b", expiryLabels, nil)}
	shown := func() map[string]time.Time {
		out := make(chan prometheus.Metric, 10)
		e.Collect(out)
		close(out)
		got := map[string]time.Time{}
		for m := range out {
			var d dto.Metric
			if err := m.Write(&d); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, l := range d.GetLabel() {
				names = append(names, l.GetName()+"="+l.GetValue())
			}
			got[strings.Join(names, " ")] = time.Unix(int64(d.GetGauge().GetValue()), 0)
		}
		return got
	}
	told := func() (texts []string) {
		err := s.View(t.Context(), func(r store.Reader) error {
			list, err := uploadedCertificates(r)
			f, _ := health.EveryCertificate(now, list)
			keys, failed := uploadedKeys(r)
			texts = append(texts, f.Text)
			for _, k := range keys {
				texts = append(texts, k.ControlPlane+": "+k.Purpose+": "+k.Next)
			}
			if err == nil {
				err = failed
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	is := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	alone := shown()
	is("one", len(alone), 1)
	is("alone", alone["control_plane= use=gateway"].Equal(now.Add(90*day)), true)
	is("alone", strings.Join(told(), "|"), "|: what gateways show for its names: PATCH /certificates/"+late)

	put(cloud.ControlPlanes, "", team, &cloud.ControlPlane{Name: "team", ClusterType: cloud.TypeHybrid})
	put(gateway.Certificates, team, early, &gateway.Certificate{Cert: string(authorityUntil(t, now.Add(day)))})
	several := shown()
	is("several", len(several), 2)
	is("the other one", several["control_plane=team use=gateway"].Equal(now.Add(day)), true)
	is("the first one", several["control_plane=default use=gateway"].Equal(now.Add(90*day)), true)
	texts := told()
	is("the condition", strings.HasPrefix(texts[0], "certificate "+early+" of control plane team without server names ends at "), true)
	is("what to do", strings.Contains(texts[0], "PATCH /v2/control-planes/"+team+"/core-entities/certificates/{id}"), true)
	is("the keys", strings.Join(texts[1:], "|"), "default: what gateways of control plane default show for its names: PATCH /certificates/"+late+
		"|team: what gateways of control plane team show for its names: PATCH /v2/control-planes/"+team+"/core-entities/certificates/"+early)
}
