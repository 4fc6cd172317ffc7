package tokencache

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// proofsPatience is how long the link waits for the disk to read its files, if it knows
// their former content.
const proofsPatience = 250 * time.Millisecond

// proofs are the contents of the files that a link needs. They are immutable.
type proofs struct {
	of    contract.ControlPlaneSettings
	roots *x509.CertPool
	token string
}

// proofsReading is one reading of these files. done is closed when it has ended.
type proofsReading struct {
	of   contract.ControlPlaneSettings
	done chan struct{}
	read *proofs
	err  error
}

// linkFiles belong to the goroutine of the link.
type linkFiles struct {
	known *proofs        // read last
	open  *proofsReading // reading in progress
}

// proofs reads the files of a link on a separate goroutine, because a disk that stalls after
// a link broke must not cost the lease. In that case the last known contents are used, and a
// rotated token is used with the next link.
func (c *Cache) proofs(ctx context.Context, cp contract.ControlPlaneSettings) (*proofs, error) {
	f := &c.linkFiles
	f.finish() // a reading that was too late for the previous link has ended by now
	if f.open == nil || f.open.of != cp {
		f.open = c.readProofs(cp)
	}
	var late <-chan time.Time
	if f.known != nil && f.known.of == cp {
		timer := time.NewTimer(proofsPatience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-f.open.done:
		r := f.finish()
		return r.read, r.err
	case <-late:
		return f.known, nil
	case <-ctx.Done():
		return nil, errDiskSlow
	}
}

// finish takes the result of a reading that has ended and returns the reading, or nil if
// none has ended.
func (f *linkFiles) finish() *proofsReading {
	r := f.open
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
	default:
		return nil
	}
	if f.open = nil; r.err == nil {
		f.known = r.read
	}
	return r
}

func (c *Cache) readProofs(cp contract.ControlPlaneSettings) *proofsReading {
	r := &proofsReading{of: cp, done: make(chan struct{}), err: errDiskSlow}
	c.start("link files", func() {
		defer close(r.done)
		p := &proofs{of: cp}
		if p.roots, r.err = readCertificates(cp.CAFile); r.err != nil {
			return
		}
		if p.token, r.err = readToken(cp.TokenFile); r.err == nil {
			r.read = p
		}
	})
	return r
}
