package identity

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The names of tokens in refusals.
const (
	tokenUser = "user"
	tokenZone = "zone"
)

// globalKinds are the kinds of tokens whose keys are global secrets.
var globalKinds = []TokenKind{UserToken, ZoneToken, ZoneIngressToken}

// series returns the keys of a kind of tokens of the control plane.
func (k TokenKind) series() series {
	switch k {
	case UserToken:
		return ofControlPlane(tokenUser, mesh.UserToken)
	case ZoneToken:
		return ofControlPlane(tokenZone, mesh.ZoneToken)
	case ZoneIngressToken:
		return ofControlPlane(string(ZoneIngressToken), mesh.ZoneIngressToken)
	case DataplaneToken, GatewayToken:
	}
	panic("identity: " + string(k) + " tokens have no global keys")
}

// UserTokenRequest asks for the token of a user.
type UserTokenRequest struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups"`
	// ValidFor is a duration such as 24h. It must be given.
	ValidFor string `json:"validFor"`
}

// Subject is what the token is of.
func (r UserTokenRequest) Subject() (model.Key, model.Scoping) {
	return model.Key{Kind: "user_token", Name: r.Name}, model.Global
}

// UserClaims are the claims of a user token.
type UserClaims struct {
	jwt.RegisteredClaims
	Name   string   `json:"Name"`
	Groups []string `json:"Groups"`
}

// from implements proof.
func (*UserClaims) from() (series, error) { return UserToken.series(), nil }

// registered implements proof.
func (c *UserClaims) registered() *jwt.RegisteredClaims { return &c.RegisteredClaims }

// proven implements proof. The token of a user proves no node.
func (*UserClaims) proven(err error) error { return err }

// claims returns the claims of the requested token.
func (r *UserTokenRequest) claims(now time.Time) (jwt.Claims, error) {
	var vs []fault.Violation
	switch {
	case r.Name == "":
		vs = append(vs, fault.Violation{Path: "name", Message: "cannot be empty"})
	case !nameable(r.Name):
		vs = append(vs, fault.Violation{Path: "name", Message: "cannot be the name of a user who is identified"})
	}
	if slices.Contains(r.Groups, model.GroupAnonymous) {
		vs = append(vs, fault.Violation{Path: "groups", Message: "cannot contain the group of those who are not identified"})
	}
	life, more := lifeOf(r.ValidFor)
	switch given, err := time.ParseDuration(r.ValidFor); {
	case r.ValidFor == "":
		more = []fault.Violation{{Path: "validFor", Message: "cannot be empty"}}
	case err == nil && given == 0: // however it is spelled
		more = []fault.Violation{{Path: "validFor", Message: "cannot be empty or nil"}}
	}
	if err := fault.Violated(append(vs, more...)); err != nil {
		return nil, err
	}
	return UserClaims{RegisteredClaims: lasting(now, life), Name: r.Name, Groups: r.Groups}, nil
}

// nameable reports whether an identified user may have a name. Those of holders of personal access tokens
// are taken, also in tokens that were made before.
func nameable(name string) bool {
	return name != model.UserAnonymous && !model.IsHolder(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// long names the member of the request that makes a token too long.
func (r *UserTokenRequest) long() string { return "groups" }

// ControlPlaneTokens issues and checks the tokens of users and of zones. Keys and revocations
// are global secrets.
type ControlPlaneTokens struct {
	secretKeys
	// outside are the public keys of users by their ids.
	outside map[string]PublicKey
}

// NewControlPlaneTokens returns the tokens of a control plane. Keys of public count beside the
// stored ones.
func NewControlPlaneTokens(s store.Store, now func() time.Time, public ...PublicKey) *ControlPlaneTokens {
	t := &ControlPlaneTokens{newSecretKeys(s, now, public), map[string]PublicKey{}}
	for _, k := range public {
		if k.For == UserToken {
			t.outside[k.ID] = k
		}
	}
	return t
}

// IssueUser returns the token of a user.
func (t *ControlPlaneTokens) IssueUser(ctx context.Context, r UserTokenRequest) (string, error) {
	return t.issue(ctx, UserToken.series(), &r)
}

// CheckUser returns the claims of the valid token of a user, and otherwise a Denied fault.
func (t *ControlPlaneTokens) CheckUser(ctx context.Context, token string) (*UserClaims, error) {
	var c UserClaims
	err := t.store.View(ctx, func(r store.Reader) error { return t.verify(r, token, &c) })
	if err == nil && (c.Name == "" || !nameable(c.Name) || slices.Contains(c.Groups, model.GroupAnonymous)) {
		err = fault.New(fault.Denied, "the user token names no user")
	}
	if err == nil {
		err = t.mayName(KeyID(token), &c)
	}
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// mayName returns a Denied fault if tokens of a key may not name a user. Only stored keys, which have
// numbers, may name everybody.
func (t *ControlPlaneTokens) mayName(kid string, c *UserClaims) error {
	k, outside := t.outside[kid]
	switch {
	case outside:
		return k.MayName(c.Name, c.Groups)
	case serialOf(kid) == 0:
		return fault.New(fault.Denied, "the user token names no key")
	}
	return nil
}

// Keys lists the signing keys of a kind of tokens; see [DataplaneTokens.Keys].
func (t *ControlPlaneTokens) Keys(r store.Reader, kind TokenKind) ([]SigningKey, error) {
	return t.list(r, kind.series())
}

// Rotate adds a signing key for a kind of tokens; see [DataplaneTokens.Rotate].
func (t *ControlPlaneTokens) Rotate(ctx context.Context, w Writer, kind TokenKind) (serial string, err error) {
	return t.rotate(ctx, w, kind.series())
}

// Withdraw withdraws all signing keys of a kind of tokens; see [DataplaneTokens.Withdraw].
func (t *ControlPlaneTokens) Withdraw(ctx context.Context, w Writer, kind TokenKind) (Withdrawal, error) {
	return t.replace(ctx, w, kind.series())
}

// Ensure makes the signing keys that do not exist.
func (t *ControlPlaneTokens) Ensure(ctx context.Context, w Writer) error {
	for _, kind := range globalKinds {
		if err := t.ensure(ctx, w, kind.series()); err != nil {
			return err
		}
	}
	return nil
}

// EnsureAdmin stores the token of an administrator as a secret if there is none, or replaces
// the one that there is.
func (t *ControlPlaneTokens) EnsureAdmin(ctx context.Context, w Writer, replace bool) error {
	there := false
	err := t.store.View(ctx, func(r store.Reader) error {
		_, err := r.Get(mesh.GlobalSecrets, "", mesh.AdminUserToken)
		if there = err == nil; fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
	if err != nil || there && !replace {
		return err
	}
	token, err := t.IssueUser(ctx, UserTokenRequest{Name: model.UserAdministrator, Groups: []string{model.GroupAdministrator}, ValidFor: DataplaneTokenLife.String()})
	if err != nil {
		return err
	}
	_, err = w.Write(ctx, model.Config, func(tx store.Tx) error {
		res := &model.Resource{Kind: mesh.GlobalSecrets, Name: mesh.AdminUserToken, Spec: &mesh.Secret{Data: []byte(token)}}
		old, err := tx.Get(mesh.GlobalSecrets, "", mesh.AdminUserToken)
		switch {
		case fault.Is(err, fault.NotFound):
			_, err = tx.Create(res)
		case err == nil && replace:
			_, err = tx.Update(res, old.Version)
		}
		return err
	})
	return err
}
