package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// rolloverAt is how long before its end an authority gets a successor. The successor is
// trusted from then on, and signs when an operator says so.
const rolloverAt = 2 * 365 * 24 * time.Hour

// Phases of the replacement of the control plane's authority. The empty phase means that no
// replacement is in progress.
const (
	// RolloverTrusting means that nodes learn to trust the next authority.
	RolloverTrusting = "trusting"
	// RolloverSigning means that the next authority signs, and both are trusted.
	RolloverSigning = "signing"
)

// signing is an authority that can sign.
type signing struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// trusted is the state of an authority: which one signs, and which other one is trusted.
type trusted struct {
	current signing
	other   *signing
	phase   string
	// id names the control plane, independent of the signing authority.
	id string
}

func parseSigning(p *KeyPair) (s signing, err error) {
	s.pem = p.Certificate
	s.cert, s.key, err = parsePair(p)
	return s, err
}

// readTrusted reads the state. It fails with NotFound if there is no authority yet.
func readTrusted(r store.Reader) (t trusted, err error) {
	res, err := r.Get(Keys, "", keyAuthority)
	if err != nil {
		return t, err
	}
	pair := res.Spec.(*KeyPair)
	if t.current, err = parseSigning(pair); err != nil {
		return t, err
	}
	if t.id = pair.ID; t.id == "" {
		t.id = idOf(t.current.cert)
	}
	for name, phase := range map[string]string{keyNext: RolloverTrusting, keyFormer: RolloverSigning} {
		res, err := r.Get(Keys, "", name)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return t, err
		}
		other, err := parseSigning(res.Spec.(*KeyPair))
		if err != nil {
			return t, fmt.Errorf("the %s authority: %w", phase, err)
		}
		t.other, t.phase = &other, phase
	}
	return t, nil
}

// bundle returns the certificates that nodes are to trust, the oldest authority first.
func (t *trusted) bundle() []byte {
	list := []signing{t.current}
	if t.other != nil {
		list = append(list, *t.other)
	}
	slices.SortFunc(list, func(a, b signing) int {
		if c := a.cert.NotBefore.Compare(b.cert.NotBefore); c != 0 {
			return c
		}
		return bytes.Compare(a.cert.Raw, b.cert.Raw)
	})
	var out []byte
	for _, s := range list {
		out = append(out, s.pem...)
	}
	return out
}

// Phase returns the phase of the replacement of the authority.
func (a *Authority) Phase() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.phase
}

// Signers describes the authority that signs, and the other one that is trusted.
func (a *Authority) Signers() (current Described, other *Described, err error) {
	a.mu.Lock()
	t := a.state
	a.mu.Unlock()
	if current, err = Describe(t.current.pem); err != nil || t.other == nil {
		return current, nil, err
	}
	d, err := Describe(t.other.pem)
	return current, &d, err
}

// SuccessorDue reports whether it is time for a successor and there is none.
func (a *Authority) SuccessorDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.phase == "" && a.now().After(a.state.current.cert.NotAfter.Add(-rolloverAt))
}

// Advance takes the next step of the replacement from a phase: a new authority becomes
// trusted; it signs; the old one is removed. It fails with Conflict if the phase has
// changed.
func (a *Authority) Advance(ctx context.Context, w Writer, from string) error {
	var made *KeyPair
	if from == "" {
		var err error
		if made, err = a.generate(); err != nil {
			return err
		}
	}
	a.steps.Lock()
	defer a.steps.Unlock()
	var after trusted
	commit, err := w.Write(ctx, model.Config, func(tx store.Tx) error {
		t, err := readTrusted(tx)
		if err != nil {
			return err
		}
		if t.phase != from {
			return fault.New(fault.Conflict, "somebody else has taken a step meanwhile")
		}
		if err := step(tx, &t, made); err != nil {
			return err
		}
		after, err = readTrusted(tx)
		return err
	})
	if len(commit.Changes) > 0 { // the commit stands, no matter what happened afterwards
		a.mu.Lock()
		a.state, a.leaves = after, map[string]*leaf{}
		a.mu.Unlock()
	}
	return err
}

// step writes the step that follows a phase.
func step(tx store.Tx, t *trusted, made *KeyPair) error {
	move := func(from, to string, id string) error {
		res, err := tx.Get(Keys, "", from)
		if err != nil {
			return err
		}
		pair := *res.Spec.(*KeyPair)
		pair.ID = id
		if err := tx.Delete(Keys, "", from, 0); err != nil {
			return err
		}
		_, err = tx.Create(&model.Resource{Kind: Keys, Name: to, Spec: &pair})
		return err
	}
	switch t.phase {
	case "":
		_, err := tx.Create(&model.Resource{Kind: Keys, Name: keyNext, Spec: made})
		return err
	case RolloverTrusting:
		if err := move(keyAuthority, keyFormer, ""); err != nil {
			return err
		}
		return move(keyNext, keyAuthority, t.id)
	default:
		return tx.Delete(Keys, "", keyFormer, 0)
	}
}
