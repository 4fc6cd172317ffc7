package portal

import (
	"net/netip"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// isKnown reports whether a developer has logged in from an address.
func (a *Accounts) isKnown(r store.Reader, developer string, from netip.Addr) (bool, error) {
	trial, err := get[cloud.Trial](r, cloud.Trials, developer)
	return err == nil && trial != nil && knownAt(trial, from, a.Now()) >= 0, err
}

// knownAt finds an address among those from which a developer has logged in; -1 if it is none, as one
// that nobody knows.
func knownAt(t *cloud.Trial, from netip.Addr, now time.Time) int {
	at := network(from)
	return slices.IndexFunc(t.Known, func(k cloud.Known) bool {
		return at.IsValid() && k.From == at.String() && now.Sub(time.UnixMilli(k.At)) < cloud.KnownFor
	})
}

// count looks at the lock of a developer, and counts failures in a row. Where the developer has logged in
// before, only what fails there counts; everywhere else, what fails anywhere else: a stranger neither
// locks the developer out there, nor has more guesses because the developer logs in there. A lock is not
// made longer by who tries meanwhile: otherwise a stranger could keep it up for ever.
func (a *Accounts) count(tx store.Tx, developer string, from netip.Addr, right bool, out *Login) error {
	trial, err := get[cloud.Trial](tx, cloud.Trials, developer)
	if err != nil {
		return err
	}
	next := cloud.Trial{Developer: developer}
	if trial != nil {
		next.Failures, next.Known = trial.Failures, slices.Clone(trial.Known)
	}
	now := a.Now()
	failures := &next.Failures
	if i := knownAt(&next, from, now); i >= 0 {
		failures = &next.Known[i].Failures
	}
	switch {
	case now.UnixMilli() < failures.LockedUntil:
		out.Outcome = audit.Locked
		return nil
	case right:
		out.Outcome = audit.Success
		*failures = cloud.Failures{}
		remember(&next, from, now)
	default:
		out.Outcome = audit.InvalidPassword
		a.fail(failures, now)
	}
	return put(tx, cloud.Trials, developer, &next)
}

// fail counts one more failure.
func (a *Accounts) fail(f *cloud.Failures, now time.Time) {
	if f.LockedUntil != 0 || now.Sub(time.UnixMilli(f.LastAt)) >= a.Limits.Lock {
		*f = cloud.Failures{}
	}
	f.Count++
	if f.LastAt = now.UnixMilli(); f.Count >= a.Limits.DeveloperFailures {
		f.LockedUntil = now.Add(a.Limits.Lock).UnixMilli()
	}
}

// remember makes an address known, in place of the one that was used longest ago.
func remember(t *cloud.Trial, from netip.Addr, now time.Time) {
	at := network(from)
	if !at.IsValid() {
		return
	}
	if i := slices.IndexFunc(t.Known, func(k cloud.Known) bool { return k.From == at.String() }); i >= 0 {
		t.Known[i] = cloud.Known{From: at.String(), At: now.UnixMilli()}
		return
	}
	if len(t.Known) >= cloud.MaxKnown {
		oldest := slices.MinFunc(t.Known, func(a, b cloud.Known) int { return int(a.At - b.At) })
		t.Known = slices.DeleteFunc(t.Known, func(k cloud.Known) bool { return k.From == oldest.From })
	}
	t.Known = append(t.Known, cloud.Known{From: at.String(), At: now.UnixMilli()})
}
