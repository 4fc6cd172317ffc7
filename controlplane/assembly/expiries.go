package assembly

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// The uses of certificates whose end is shown. The certificates that proxies hold are not
// among them: the statistics of their Envoys show when they end.
const (
	certAuthority     = "authority"
	certMeshAuthority = "mesh_authority"
	certGateway       = "gateway"
)

// gaugeTime bounds how long a gauge waits for the store when it is scraped, so that a store that hangs does
// not block the whole metrics page.
const gaugeTime = 2 * time.Second

// expiries shows when the first certificate of each use ends. It reads the store again only
// after a change. While the store cannot be read, the last known values are shown.
type expiries struct {
	store     store.Store
	authority func() []byte
	log       *slog.Logger
	desc      *prometheus.Desc

	mu       sync.Mutex
	read     bool
	revision uint64
	first    map[expiry]time.Time
}

// expiry is what the first of some certificates is shown for. Gateways are those of a control plane, if
// there are several of these.
type expiry struct{ use, plane string }

// maxPlanesShown bounds the control planes that are shown: those whose certificates end first.
const maxPlanesShown = 100

// expiryLabels are the labels of an expiry.
var expiryLabels = []string{"use", "control_plane"}

func newExpiries(cp *ControlPlane) *expiries {
	return &expiries{
		store: cp.store, authority: cp.authority.PEM, log: cp.Log,
		desc: prometheus.NewDesc("meshgate_certificate_expiry_timestamp_seconds", "When the first certificate of a use ends, in seconds of Unix time.", expiryLabels, nil),
	}
}

// Describe implements prometheus.Collector.
func (e *expiries) Describe(out chan<- *prometheus.Desc) { out <- e.desc }

// Collect implements prometheus.Collector.
func (e *expiries) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.store.Revision(); !e.read || now != e.revision {
		// The revision is taken before the read, so a change during the read causes another
		// read.
		before := e.first
		e.first = map[expiry]time.Time{}
		e.note(expiry{use: certAuthority}, e.authority())
		if e.revision, e.read = now, e.load(); !e.read && before != nil {
			e.first = before
		}
	}
	for of, at := range e.first {
		out <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, telemetry.Unix(at), of.use, of.plane)
	}
}

// load reads the certificates in the store and reports whether it could. A row that cannot be
// read is skipped.
func (e *expiries) load() bool {
	ctx, cancel := context.WithTimeout(context.Background(), gaugeTime)
	defer cancel()
	err := e.store.View(ctx, func(r store.Reader) error {
		if err := e.each(r, mesh.Meshes, meshca.Authorities, func(res *model.Resource) {
			e.note(expiry{use: certMeshAuthority}, res.Spec.(*meshca.Authority).Current.Certificate)
		}); err != nil {
			return err
		}
		return e.gateways(r)
	})
	if err != nil {
		e.log.Error("the certificates cannot be read", "error", err)
	}
	return err == nil
}

// gateways reads the certificates of all control planes.
func (e *expiries) gateways(r store.Reader) error {
	all, err := controlPlanes(r)
	if err != nil {
		return err
	}
	var shown []expiry
	for _, p := range all {
		of := expiry{use: certGateway}
		if len(all) > 1 {
			of.plane = p.name
		}
		rows, _, err := store.ListReadable(r, gateway.Certificates, p.scope)
		if err != nil {
			return err
		}
		for _, res := range rows {
			c := res.Spec.(*gateway.Certificate)
			e.note(of, []byte(c.Cert))
			e.note(of, []byte(c.CertAlt))
		}
		if _, some := e.first[of]; some {
			shown = append(shown, of)
		}
	}
	slices.SortFunc(shown, func(a, b expiry) int { return e.first[a].Compare(e.first[b]) })
	for _, of := range shown[min(len(shown), maxPlanesShown):] {
		delete(e.first, of)
	}
	return nil
}

// each calls fn for the resources of a kind in all scopes. The scopes are the names of the
// resources of another kind.
func (e *expiries) each(r store.Reader, scopes, k *model.Kind, fn func(*model.Resource)) error {
	all, _, err := store.ListReadable(r, scopes, "")
	if err != nil {
		return err
	}
	for _, s := range all {
		rows, _, err := store.ListReadable(r, k, s.Name)
		if err != nil {
			return err
		}
		for _, res := range rows {
			fn(res)
		}
	}
	return nil
}

// note takes the end of the first certificate of a chain, which is the leaf.
func (e *expiries) note(of expiry, chain []byte) {
	c, err := pemtext.Leaf(chain)
	if err != nil {
		return // certificates are checked when they are written
	}
	if at, known := e.first[of]; !known || c.NotAfter.Before(at) {
		e.first[of] = c.NotAfter
	}
}
