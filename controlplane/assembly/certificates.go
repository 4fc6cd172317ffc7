package assembly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/durable"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// certificates lists the certificates that only the operator can renew. Certificates that the
// authority signs are left out: they are renewed in time, and proxies watch theirs.
func (cp *ControlPlane) certificates() []health.Certificate {
	list := certificatesOf(cp.authority.PEM(), "the authority of the control plane ("+cp.CAFile+")",
		"with it every certificate of the data plane ends, and proxies refuse the control plane: replace it in time with meshgate keys rotate control-plane-ca (docs/operations/keys.md)")
	if file := cp.cfg.Redis.CAFile; file != "" {
		if text, err := os.ReadFile(file); err == nil { //nolint:gosec // the operator names the file; one that is missing is said by connections
			list = append(list, certificatesOf(text, "the authority in redis.caFile "+file, "put the new one there, it is read for each connection; proxies hear of it when the control plane is started again")...)
		}
	}
	return list
}

func certificatesOf(text []byte, what, do string) (list []health.Certificate) {
	for _, c := range pemtext.Parsed(text) {
		list = append(list, health.Certificate{What: what, Do: do, NotBefore: c.NotBefore, NotAfter: c.NotAfter})
	}
	return list
}

// judgeCertificates sets the condition of the certificates, and returns when to look again.
func (cp *ControlPlane) judgeCertificates(now time.Time) (next time.Time) {
	f, next := health.Certificates(now, cp.certificates())
	cp.ready.conditions.Set(conditionCertificates, f)
	return next
}

// watchCertificates looks at the certificates whenever one comes near its end, until ctx
// ends. It does not notice that a file was replaced; requests of /ready look again.
func (cp *ControlPlane) watchCertificates(ctx context.Context) error {
	cp.ready.conditions.Probe(conditionCertificates, func(context.Context) { cp.judgeCertificates(time.Now()) })
	for {
		next := cp.judgeCertificates(time.Now())
		if next.IsZero() {
			<-ctx.Done()
			return nil
		}
		if alarm.Wait(ctx, time.Now, next) != nil {
			return nil
		}
	}
}

// writeCA writes the certificates of the authority into a file for others. Readers see either
// the old or the new certificates. A file that is up to date is left alone, so that a full
// disk cannot destroy the file that proxies are given.
func writeCA(path string, text []byte) error {
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, text) { //nolint:gosec // below the state directory
		return nil
	}
	next := path + ".new"
	err := writeSynced(next, text)
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the certificate of the authority: %w", err), os.Remove(next))
	}
	return durable.SyncDir(filepath.Dir(path))
}

// writeSynced writes a public file and waits until it is on the disk.
func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // public certificates
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
