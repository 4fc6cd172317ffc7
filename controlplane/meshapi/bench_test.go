package meshapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// everyone has the same insight of every proxy.
type everyone struct{ in *insight.DataplaneInsight }

func (e everyone) Read(context.Context, *model.Kind, string, string) (any, bool, error) {
	return e.in, true, nil
}

// BenchmarkPage measures, also in CPU time of the process, pages of 100 of 50,000 dataplanes, as many ExternalServices, and 1,000
// zones and ingresses, in a store on disk.
func BenchmarkPage(b *testing.B) {
	key, err := seal.New(bytes.Repeat([]byte{1}, seal.RootSize))
	if err != nil {
		b.Fatal(err)
	}
	in := &insight.DataplaneInsight{Subscriptions: []insight.Subscription{{ID: "1", ConnectTime: start}}}
	a := newAPI(b, func(o *Options) {
		s, err := sqlstore.Open(b.Context(), sqlstore.Options{
			Path: filepath.Join(b.TempDir(), "meshgate.db"), Kinds: o.Kinds, Sealer: key, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		fill(b, s, 25_000)
		fillZones(b, s, 1000)
		fillExternal(b, s, 25_000)
		fillPolicies(b, s, 25_000)
		c := census.New(census.Options{
			Store: s, Kinds: o.Kinds, Log: slog.New(slog.DiscardHandler), Online: func(*model.Kind, string) bool { return true },
			Insight: func(string, string) *insight.DataplaneInsight { return in },
		})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }() // it ends with the benchmark
		b.Cleanup(func() { stop(); <-ended })
		o.Store, o.Census, o.Directory, o.Insights = s, c, c, everyone{in}
		waiting, done := context.WithTimeout(ctx, time.Minute)
		defer done()
		if _, _, err := c.Now(waiting); err != nil {
			b.Fatal(err)
		}
	})
	for _, c := range [][2]string{
		{"first", "/dataplanes?size=100"}, {"deep", "/dataplanes?size=100&offset=37500"}, {"name", "/dataplanes?size=100&name=0012"},
		{"tag", "/dataplanes?size=100&tag=" + mesh.TagService + ":s3"}, {"nobody", "/dataplanes?size=100&tag=a:b"}, {"gateway", "/dataplanes?size=100&gateway=false"},
		{"tagAll", "/dataplanes?size=100&tag=" + mesh.TagService + ":s"}, {"labels", "/dataplanes?size=100&filter[labels.team]=t3"}, {"labelsNobody", "/dataplanes?size=100&filter[labels.team]=x"},
		{"external", "/external-services?size=100"}, {"externalName", "/external-services?size=100&name=0012"},
		{"externalTag", "/external-services?size=100&tag=" + mesh.TagService + ":s3"}, {"externalLabels", "/external-services?size=100&filter[labels.team]=t3"},
		{"policies", "/tickets?size=100"}, {"policiesName", "/tickets?size=100&name=0012"}, {"policiesLabels", "/tickets?size=100&filter[labels.team]=t3"},
		{"overviews", "/dataplanes+insights?size=100"}, {"overviewsDeep", "/dataplanes+insights?size=100&offset=37500"}, {"overviewsTag", "/dataplanes+insights?size=100&tag=" + mesh.TagService + ":s3"},
		{"insights", "/dataplane-insights?size=100"}, {"insightsDeep", "/dataplane-insights?size=100&offset=37500"}, {"insight", "/meshes/two/dataplane-insights/web-012345"},
		{"zones", "/zones+insights?size=100"}, {"ingresses", "/zone-ingresses/_overview?size=100"}, {"meshInsights", "/mesh-insights"}, {"serviceInsights", "/service-insights"},
	} {
		b.Run(c[0], func(b *testing.B) {
			b.ReportAllocs()
			begun := cpuTime(b)
			for b.Loop() {
				if rec := request(a.handler, "GET", c[1], ""); rec.Code != 200 {
					b.Fatal(rec.Body)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-begun)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

// cpuTime is what this process has used of the processors, which others that run beside it do not
// change.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fillExternal stores n ExternalServices in each of two meshes.
func fillExternal(t testing.TB, s store.Store, n int) {
	t.Helper()
	if _, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for _, m := range []string{"one", "two"} {
			for i := range n {
				x := &mesh.ExternalService{Networking: &mesh.ExternalNetworking{Address: "x.example:443"}, Tags: mesh.Tags{mesh.TagService: fmt.Sprint("s", i%10)}}
				x.Labels = map[string]string{"team": fmt.Sprint("t", i%10)}
				if _, err := tx.Create(&model.Resource{Kind: mesh.ExternalServices, Scope: m, Name: fmt.Sprintf("out-%06d", i), Spec: x}); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// fillPolicies stores n policies in each of two meshes.
func fillPolicies(t testing.TB, s store.Store, n int) {
	t.Helper()
	if _, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for _, m := range []string{"one", "two"} {
			for i := range n {
				if _, err := tx.Create(&model.Resource{Kind: tickets, Scope: m, Name: fmt.Sprintf("rule-%06d", i), Spec: asking(i)}); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// fillZones stores zones with an ingress each.
func fillZones(t testing.TB, s store.Store, n int) {
	t.Helper()
	if _, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for i := range n {
			ingress := &mesh.ZoneIngress{Zone: fmt.Sprintf("zone-%04d", i), Networking: &mesh.ZoneIngressNetworking{Address: "10.0.0.1", Port: 10001}}
			if _, err := tx.Create(&model.Resource{Kind: mesh.Zones, Name: ingress.Zone, Spec: &mesh.Zone{}}); err != nil {
				return err
			}
			if _, err := tx.Create(&model.Resource{Kind: mesh.ZoneIngresses, Name: ingress.Zone, Spec: ingress}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
