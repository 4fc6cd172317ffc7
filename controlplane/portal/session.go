package portal

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The lives of tokens, and of sessions however often they are refreshed.
const (
	AccessLife  = 15 * time.Minute
	RefreshLife = 7 * 24 * time.Hour
	SessionLife = 30 * 24 * time.Hour
)

// maxSessions bounds the sessions of a developer. The oldest ends for a new one.
const maxSessions = 20

// Tokens are what a client keeps of a session.
type Tokens struct{ Access, Refresh string }

// ErrNoSession is the error of a token that does not count.
var ErrNoSession error = fault.New(fault.Denied, "there is no such session")

// token writes a token: the name of the session and a secret.
func token(session string) string { return session + "." + rand.Text() + rand.Text() }

// sessionOf is the session that a token names.
func sessionOf(token string) string {
	name, _, _ := strings.Cut(token, ".")
	if !model.IsUUID(name) {
		return ""
	}
	return name
}

// is compares a token with a stored digest.
func is(token, digest string) bool {
	return subtle.ConstantTimeCompare([]byte(cloud.SecretDigest(token)), []byte(digest)) == 1
}

// begin starts a session in a transaction, in an era of its portal.
func (a *Accounts) begin(tx store.Tx, developer string, era int64) (*Tokens, error) {
	rows, err := tx.List(cloud.Sessions, store.Query{Index: cloud.IndexDeveloper, Value: developer})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b *model.Resource) int { return a.Created.Compare(b.Created) })
	for len(rows) >= maxSessions {
		if err := tx.Delete(cloud.Sessions, "", rows[0].Name, 0); err != nil {
			return nil, err
		}
		rows = rows[1:]
	}
	name := uuid.NewString()
	now := a.Now()
	tokens, spec := renewed(name, cloud.Session{Developer: developer, Ends: now.Add(SessionLife).UnixMilli(), Era: era}, now)
	_, err = tx.Create(&model.Resource{Kind: cloud.Sessions, Name: name, Spec: spec, Created: now})
	return tokens, err
}

// renewed makes new tokens of a session.
func renewed(name string, s cloud.Session, now time.Time) (*Tokens, *cloud.Session) {
	tokens := &Tokens{Access: token(name), Refresh: token(name)}
	until := func(life time.Duration) int64 { return min(now.Add(life).UnixMilli(), s.Ends) }
	s.Access, s.Refresh = cloud.SecretDigest(tokens.Access), cloud.SecretDigest(tokens.Refresh)
	s.AccessEnds, s.RefreshEnds = until(AccessLife), until(RefreshLife)
	return tokens, &s
}

// Who returns the developer of an access token.
func (a *Accounts) Who(ctx context.Context, portal, access string) (dev *model.Resource, err error) {
	err = a.Store.View(ctx, func(r store.Reader) error {
		s, err := get[cloud.Session](r, cloud.Sessions, sessionOf(access))
		if err != nil {
			return err
		}
		if s == nil || !is(access, s.Access) || a.Now().UnixMilli() >= s.AccessEnds {
			return ErrNoSession
		}
		if err := counts(r, portal, s); err != nil {
			return err
		}
		dev, err = member(r, portal, s.Developer)
		return err
	})
	return dev, err
}

// counts refuses a session that a portal does not accept. Where nobody logs in with a password, sessions do not
// count that began with one, and never again: whoever switches passwords off has lost trust in them.
func counts(r store.Reader, portal string, s *cloud.Session) error {
	at, err := portalOf(r, portal)
	if err == nil && (at.IsPublic || !at.BasicAuth || s.Era != at.Era) {
		err = ErrNoSession
	}
	return err
}

// member returns an approved developer of a portal.
func member(r store.Reader, portal, id string) (*model.Resource, error) {
	dev, err := r.Get(cloud.Developers, "", id)
	if fault.Is(err, fault.NotFound) {
		return nil, ErrNoSession
	}
	if err != nil {
		return nil, err
	}
	if d := dev.Spec.(*cloud.Developer); d.Portal != portal || d.Status != cloud.Approved {
		return nil, ErrNoSession
	}
	return dev, nil
}

// Refresh exchanges a refresh token for new tokens. A token that was exchanged before is in the hands
// of two, and nobody knows which of them is the thief: the session ends, also where no session counts.
func (a *Accounts) Refresh(ctx context.Context, portal, refresh string) (*Tokens, error) {
	name := sessionOf(refresh)
	if name == "" {
		return nil, ErrNoSession
	}
	// Whoever has no session does not keep writers waiting.
	err := a.Store.View(ctx, func(r store.Reader) error {
		s, err := get[cloud.Session](r, cloud.Sessions, name)
		if err == nil && s == nil {
			err = ErrNoSession
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var tokens *Tokens
	var reused bool
	_, err = a.Writer.Write(ctx, model.Config, func(tx store.Tx) error {
		tokens, reused = nil, false
		s, err := get[cloud.Session](tx, cloud.Sessions, name)
		if err != nil {
			return err
		}
		if s == nil || a.Now().UnixMilli() >= s.RefreshEnds {
			return ErrNoSession
		}
		if _, err := member(tx, portal, s.Developer); err != nil {
			return err // it is a session of another portal, or has ended with its developer
		}
		if reused = !is(refresh, s.Refresh); reused {
			return removeOne(tx, cloud.Sessions, name)
		}
		if err := counts(tx, portal, s); err != nil {
			return err
		}
		var next *cloud.Session
		tokens, next = renewed(name, *s, a.Now())
		return put(tx, cloud.Sessions, name, next)
	})
	if err != nil {
		return nil, err
	}
	if reused {
		a.Log.Warn("a session ended because an old refresh token of it was used", "portal", portal, "session", name)
		return nil, ErrNoSession
	}
	return tokens, nil
}

// Leave ends the session of a token, which may be either of both. Nothing happens if there is none.
func (a *Accounts) Leave(ctx context.Context, portal, token string) error {
	name := sessionOf(token)
	if name == "" {
		return nil
	}
	// Whoever has no session does not keep writers waiting.
	ours := false
	err := a.Store.View(ctx, func(r store.Reader) error {
		s, err := get[cloud.Session](r, cloud.Sessions, name)
		ours = s != nil && (is(token, s.Access) || is(token, s.Refresh))
		return err
	})
	if err != nil || !ours {
		return err
	}
	_, err = a.Writer.Write(ctx, model.Config, func(tx store.Tx) error {
		s, err := get[cloud.Session](tx, cloud.Sessions, name)
		if err != nil || s == nil || !is(token, s.Access) && !is(token, s.Refresh) {
			return err
		}
		if _, err := member(tx, portal, s.Developer); err != nil { // passwords may be on again later
			return nil //nolint:nilerr // it is a session of another portal, or counts no more
		}
		return removeOne(tx, cloud.Sessions, name)
	})
	return err
}
