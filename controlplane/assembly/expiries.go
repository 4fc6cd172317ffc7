package assembly

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/telemetry"
)

// Certificates whose end is shown, by use: those that nobody renews in time by
// himself. The ends of what proxies hold are among the statistics of their Envoys.
const (
	certAuthority     = "authority"
	certMeshAuthority = "mesh_authority"
	certGateway       = "gateway"
)

// expiriesTime bounds how long a scrape waits for the store. One that hangs must not take
// the page of metrics away.
const expiriesTime = 2 * time.Second

// expiries shows when the first certificate of each use ends. What the store has is
// read again only after a change of it; while it cannot be read, what was known is shown.
type expiries struct {
	store     store.Store
	authority func() []byte
	log       *slog.Logger
	desc      *prometheus.Desc

	mu       sync.Mutex
	read     bool
	revision uint64
	first    map[string]time.Time
}

func newExpiries(cp *ControlPlane) *expiries {
	return &expiries{
		store: cp.store, authority: cp.authority.PEM, log: cp.Log,
		desc: prometheus.NewDesc("meshgate_certificate_expiry_timestamp_seconds", "When the first certificate of a use ends, in seconds of Unix time.", []string{"use"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (e *expiries) Describe(out chan<- *prometheus.Desc) { out <- e.desc }

// Collect implements prometheus.Collector.
func (e *expiries) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.store.Revision(); !e.read || now != e.revision {
		// A revision that comes while the store is read has it read again.
		before := e.first
		e.first = map[string]time.Time{}
		e.note(certAuthority, e.authority())
		if e.revision, e.read = now, e.load(); !e.read && before != nil {
			e.first = before
		}
	}
	for use, at := range e.first {
		out <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, telemetry.Unix(at), use)
	}
}

// load reads what the store has; a row that cannot be read hides no other one.
func (e *expiries) load() bool {
	ctx, cancel := context.WithTimeout(context.Background(), expiriesTime)
	defer cancel()
	err := e.store.View(ctx, func(r store.Reader) error {
		if err := e.each(r, mesh.Meshes, meshca.Authorities, func(res *model.Resource) {
			e.note(certMeshAuthority, res.Spec.(*meshca.Authority).Current.Certificate)
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

// gateways reads the certificates of the default control plane, the only one.
func (e *expiries) gateways(r store.Reader) error {
	rows, _, err := store.ListReadable(r, gateway.Certificates, model.DefaultControlPlane)
	for _, res := range rows {
		c := res.Spec.(*gateway.Certificate)
		e.note(certGateway, []byte(c.Cert))
		e.note(certGateway, []byte(c.CertAlt))
	}
	return err
}

// each calls fn with the resources of a kind in the scopes that another kind names.
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
func (e *expiries) note(use string, chain []byte) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return // it was checked when it was written
	}
	if at, known := e.first[use]; !known || c.NotAfter.Before(at) {
		e.first[use] = c.NotAfter
	}
}
