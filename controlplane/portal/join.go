package portal

import (
	"context"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The lives of invitations: of one that a person hands over, and of the token for which it is exchanged.
const (
	InviteLife = 3 * 24 * time.Hour
	verifyLife = time.Hour
)

var (
	// ErrFull is the error of a portal that has no room for another developer.
	ErrFull error = fault.New(fault.TooLarge, "the portal has as many developers as it may have")
	// ErrPublic is the error of a portal that has no developers.
	ErrPublic error = fault.New(fault.Forbidden, "a public portal has no developers")
	// ErrEnded is the error of an invitation that has ended.
	ErrEnded error = fault.New(fault.Unsupported, "the token has expired")
	// ErrNoInvitation is the error of a token that is none.
	ErrNoInvitation error = fault.New(fault.NotFound, "there is no such token")
)

// Add creates a developer in a transaction.
func Add(tx store.Tx, dev *cloud.Developer, now time.Time) (*model.Resource, error) {
	portal, err := portalOf(tx, dev.Portal)
	if err != nil {
		return nil, err
	}
	if portal.IsPublic {
		return nil, ErrPublic
	}
	n, err := tx.Count(cloud.Developers, store.Query{Index: cloud.IndexPortal, Value: dev.Portal})
	if err != nil {
		return nil, err
	}
	if n >= cloud.MaxDevelopers {
		return nil, ErrFull
	}
	return tx.Create(&model.Resource{Kind: cloud.Developers, Name: uuid.NewString(), Spec: dev, Created: now})
}

// Register adds a developer who asks for it, who is approved if the portal approves everybody. Somebody
// whose address is taken is not told: this is a matter between the portal and its developers.
func (a *Accounts) Register(ctx context.Context, from netip.Addr, dev cloud.Developer) error {
	if wait, _ := a.newcomer.enter(dev.Portal, from); wait > 0 {
		return &TooMany{wait}
	}
	_, err := a.Writer.Write(byDeveloper(ctx), model.Config, func(tx store.Tx) error {
		portal, err := portalOf(tx, dev.Portal)
		if err != nil {
			return err
		}
		spec := dev
		spec.Status = cloud.Pending
		if portal.AutoApproveDevelopers {
			spec.Status = cloud.Approved
		} else if err := roomForPending(tx, dev.Portal); err != nil {
			return err
		}
		_, err = Add(tx, &spec, a.Now())
		return err
	})
	if fault.Is(err, fault.Unique) {
		return nil
	}
	return err
}

// roomForPending refuses another developer who waits for approval where there are very many: strangers
// must not take all the room that a portal has.
func roomForPending(tx store.Tx, portal string) error {
	rows, err := store.ListAll(tx, cloud.Developers, store.Query{Index: cloud.IndexPortal, Value: portal})
	if err != nil {
		return err
	}
	pending := 0
	for _, row := range rows {
		if dev, ok := row.Spec.(*cloud.Developer); ok && dev.Status == cloud.Pending {
			pending++
		}
	}
	if pending >= cloud.MaxPending {
		return ErrFull
	}
	return nil
}

// Invite makes a token by which a developer proves who it is and sets a password. Earlier ones end.
func (a *Accounts) Invite(ctx context.Context, developer string) (token string, ends time.Time, err error) {
	token, ends = uuid.NewString(), a.Now().Add(InviteLife)
	_, err = a.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		if err := removeAll(tx, cloud.Invitations, developer); err != nil {
			return err
		}
		return invite(tx, token, cloud.Invitation{Developer: developer, Ends: ends.UnixMilli()})
	})
	return token, ends, err
}

func invite(tx store.Tx, token string, spec cloud.Invitation) error {
	_, err := tx.Create(&model.Resource{Kind: cloud.Invitations, Name: cloud.SecretDigest(token), Spec: &spec})
	return err
}

// invited returns the invitation of a token. A token of another portal is none.
func (a *Accounts) invited(r store.Reader, portal, token string, verified bool) (*cloud.Invitation, *cloud.Developer, error) {
	in, err := get[cloud.Invitation](r, cloud.Invitations, cloud.SecretDigest(token))
	if err != nil {
		return nil, nil, err
	}
	if in == nil || in.Verified != verified {
		return nil, nil, ErrNoInvitation
	}
	dev, err := get[cloud.Developer](r, cloud.Developers, in.Developer)
	if err != nil {
		return nil, nil, err
	}
	if dev == nil || dev.Portal != portal {
		return nil, nil, ErrNoInvitation
	}
	if a.Now().UnixMilli() >= in.Ends {
		return nil, nil, ErrEnded
	}
	return in, dev, nil
}

// byDeveloper returns the context of a write that a developer asks for, or somebody who wants to be one.
// Neither is recorded: their records would push out those of administrators.
func byDeveloper(ctx context.Context) context.Context {
	return model.WithOrigin(ctx, model.OriginStranger)
}

// Verify exchanges an invitation for the token that sets the password. It can be done once.
func (a *Accounts) Verify(ctx context.Context, from netip.Addr, portal, token string) (email, next string, err error) {
	err = a.tried(portal, from, func() error {
		next = uuid.NewString()
		_, err := a.Writer.Write(byDeveloper(ctx), model.Credential, func(tx store.Tx) error {
			in, dev, err := a.invited(tx, portal, token, false)
			if err != nil {
				return err
			}
			email = dev.Email
			if err := removeAll(tx, cloud.Invitations, in.Developer); err != nil {
				return err
			}
			return invite(tx, next, cloud.Invitation{Developer: in.Developer, Verified: true, Ends: a.Now().Add(verifyLife).UnixMilli()})
		})
		return err
	})
	return email, next, err
}

// Reset sets a password by the token that [Accounts.Verify] has returned. It can be done once.
func (a *Accounts) Reset(ctx context.Context, from netip.Addr, portal, token, password string) error {
	return a.tried(portal, from, func() error {
		// Nothing is computed for somebody without a token.
		err := a.Store.View(ctx, func(r store.Reader) error {
			_, _, err := a.invited(r, portal, token, true)
			return err
		})
		if err != nil {
			return err
		}
		hash, err := a.Hash(ctx, password)
		if err != nil {
			return err
		}
		_, err = a.Writer.Write(byDeveloper(ctx), model.Config, func(tx store.Tx) error {
			in, _, err := a.invited(tx, portal, token, true)
			if err != nil {
				return err
			}
			return SetPassword(tx, in.Developer, hash)
		})
		return err
	})
}

// tried bounds attempts with tokens by the limits of logins.
func (a *Accounts) tried(portal string, from netip.Addr, fn func() error) error {
	if wait, _ := a.logins.enter(portal, from); wait > 0 {
		return &TooMany{wait}
	}
	if err := fn(); err != nil {
		a.logins.failed(portal, from)
		return err
	}
	a.logins.succeeded(portal, from, false)
	return nil
}
