package portal

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Attempt is somebody who wants to log in.
type Attempt struct {
	Portal          string
	Email, Password string
	// Source, Request, UserAgent and Trace are those of [audit.Event].
	Source             netip.Addr
	Request, UserAgent string
	Trace              string
}

// Login is what an attempt came to.
type Login struct {
	Outcome audit.Outcome
	// Tokens are those of the new session; nil without success.
	Tokens *Tokens
	// Unapproved says that the password is right and that nobody has approved the developer.
	Unapproved bool
	// Locked is for how long the address is locked out; 0 if it is not.
	Locked time.Duration
}

// mostAgent bounds the user agent of an event.
const mostAgent = 512

// Login lets a developer log in. The event is stored with what the login writes: neither exists without
// the other. Whoever tries too often, or logs in too often, gets [*TooMany], before anything is computed
// or stored.
func (a *Accounts) Login(ctx context.Context, at Attempt) (Login, error) {
	wait, locked := a.logins.knock(at.Portal, at.Source)
	if wait > 0 {
		return Login{}, &TooMany{wait}
	}
	known, err := a.lookUp(ctx, at)
	if err != nil {
		return Login{}, err
	}
	if wait = a.logins.admit(known.id, at.Source); wait > 0 {
		a.logins.succeeded(at.Portal, at.Source, true) // others at the address are not held up
	} else if !known.here {
		wait = a.logins.brake(at.Portal, at.Source)
	}
	if wait > 0 {
		return Login{}, &TooMany{wait}
	}
	var right bool
	if locked == 0 && known.portal.BasicAuth && !known.portal.IsPublic {
		if right, err = a.Hasher.Verify(ctx, at.Password, known.hash); err != nil {
			return Login{}, err
		}
	}
	var out Login
	_, err = a.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		out = Login{Locked: locked}
		return a.settle(tx, at, known, right, &out)
	})
	if err != nil {
		return Login{}, err
	}
	if out.Outcome == audit.Success {
		a.logins.succeeded(at.Portal, at.Source, known.here)
		a.logins.loggedIn(known.id, at.Source)
	} else if locked == 0 {
		a.logins.failed(at.Portal, at.Source)
	}
	return out, nil
}

// account is what is known of somebody who wants to log in.
type account struct {
	portal *cloud.Portal
	// id is empty if nobody has the address.
	id   string
	hash string
	// here says that the developer has logged in from the address before.
	here bool
}

// lookUp reads what a password is compared with.
func (a *Accounts) lookUp(ctx context.Context, at Attempt) (out account, err error) {
	err = a.Store.View(ctx, func(r store.Reader) error {
		if out.portal, err = portalOf(r, at.Portal); err != nil {
			return err
		}
		dev, err := r.Find(cloud.Developers, "", cloud.IndexEmail, cloud.EmailKey(at.Portal, at.Email))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		out.id = dev.Name
		secret, err := get[cloud.Password](r, cloud.Passwords, dev.Name)
		if secret != nil {
			out.hash = secret.Hash
		}
		if err == nil {
			out.here, err = a.isKnown(r, dev.Name, at.Source)
		}
		return err
	})
	return out, err
}

func portalOf(r store.Reader, id string) (*cloud.Portal, error) {
	res, err := r.Get(cloud.Portals, "", id)
	if err != nil {
		return nil, err
	}
	return res.Spec.(*cloud.Portal), nil
}

// settle decides in the transaction, where nobody else can count a failure meanwhile: however many
// guess at once, only so many guesses count as are allowed.
func (a *Accounts) settle(tx store.Tx, at Attempt, known account, right bool, out *Login) error {
	portal, err := portalOf(tx, at.Portal)
	if err != nil {
		return err
	}
	if err := a.judge(tx, at, portal, known, right, out); err != nil {
		return err
	}
	if portal.IsPublic {
		return nil
	}
	switch out.Outcome {
	case audit.Success:
		out.Tokens, err = a.begin(tx, known.id, portal.Era)
	case audit.InvalidPassword: // it is counted
	default:
		// Others take the time of a write, too: nothing can be told from it.
		err = put(tx, cloud.Trials, at.Portal, &cloud.Trial{Failures: cloud.Failures{LastAt: a.Now().UnixMilli()}})
	}
	if err != nil {
		return err
	}
	return delivery.Put(tx, audit.Event{
		Time: a.Now(), Method: audit.Basic, Outcome: out.Outcome, Source: at.Source, Request: at.Request, UserAgent: agent(at.UserAgent),
		Organization: a.Organization, Portal: at.Portal, Principal: known.id, Trace: at.Trace,
	})
}

// Test stores an event that says that it is a test, and returns its id.
func (a *Accounts) Test(ctx context.Context, e audit.Event) (id string, err error) {
	if wait, _ := a.tests.enter(e.Portal, e.Source); wait > 0 {
		return "", &TooMany{wait}
	}
	e.ID, e.Time, e.Outcome, e.Organization, e.UserAgent = uuid.NewString(), a.Now(), audit.Test, a.Organization, agent(e.UserAgent)
	_, err = a.Writer.Write(ctx, model.Credential, func(tx store.Tx) error { return delivery.Put(tx, e) })
	return e.ID, err
}

// agent bounds a user agent.
func agent(text string) string {
	if len(text) > mostAgent {
		text = text[:mostAgent]
	}
	return strings.ToValidUTF8(text, "")
}

// judge finds the outcome, and counts it.
func (a *Accounts) judge(tx store.Tx, at Attempt, portal *cloud.Portal, known account, right bool, out *Login) error {
	out.Outcome = audit.NotFound
	switch {
	case !portal.BasicAuth:
		out.Outcome = audit.Invalid
		return nil
	case out.Locked > 0:
		out.Outcome = audit.Locked
		return nil
	case known.id == "" || portal.IsPublic:
		return nil
	}
	dev, err := get[cloud.Developer](tx, cloud.Developers, known.id)
	if err != nil || dev == nil {
		return err
	}
	// A password that was changed since is not the one that was right.
	secret, err := get[cloud.Password](tx, cloud.Passwords, known.id)
	if err != nil {
		return err
	}
	right = right && secret != nil && secret.Hash == known.hash
	if dev.Status != cloud.Approved {
		out.Outcome, out.Unapproved = audit.Disabled, right && dev.Status == cloud.Pending
		return nil
	}
	return a.count(tx, known.id, at.Source, right, out)
}
