package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Bounds of a list of revoked tokens, and of one request to add to it.
const (
	maxRevokedID  = 128
	maxRevokedIDs = 1000
	maxRevoked    = 1 << 20
)

// RevokeTokens adds ids to the list of revoked tokens of a kind. meshName is the mesh of
// dataplane tokens, and empty for others. It returns how many were not listed before. The list
// is read in the transaction that writes it, so that no id is lost if two callers add at the
// same time, unlike with two PUTs of the secret. Faults: Invalid for a text that is not an
// id, NotFound for a missing mesh.
func RevokeTokens(ctx context.Context, w Writer, of TokenKind, meshName string, ids []string) (added int, err error) {
	if err := checkRevoked(ids); err != nil {
		return 0, err
	}
	s := of.revocable(meshName)
	_, err = w.Write(ctx, model.Config, func(tx store.Tx) error {
		if err := s.exists(tx); err != nil {
			return err
		}
		old, err := tx.Get(s.kind, s.scope, s.revoked)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		secret := mesh.Secret{}
		if old != nil {
			secret = *old.Spec.(*mesh.Secret)
		}
		if secret.Data, added = withRevoked(secret.Data, ids); added == 0 {
			return nil
		}
		if len(secret.Data) > maxRevoked {
			return fault.New(fault.Conflict, "the list of revoked tokens would be larger than %d bytes: leave out those that have ended", maxRevoked)
		}
		res := &model.Resource{Kind: s.kind, Scope: s.scope, Name: s.revoked, Spec: &secret}
		if old == nil {
			_, err = tx.Create(res)
		} else {
			_, err = tx.Update(res, old.Version)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// revocable returns the place of the list of revoked tokens of a kind.
func (k TokenKind) revocable(meshName string) series {
	switch k {
	case DataplaneToken:
		return ofMesh(meshName)
	case GatewayToken: // its keys are elsewhere
		return series{kind: mesh.GlobalSecrets, revoked: mesh.GatewayTokenRevocations}
	case UserToken, ZoneToken, ZoneIngressToken:
	}
	return k.series()
}

// withRevoked appends the ids that a list lacks.
func withRevoked(list []byte, ids []string) (out []byte, added int) {
	listed := revokedIDs(list)
	for _, id := range ids {
		if !slices.Contains(listed, id) {
			listed = append(listed, id)
			added++
		}
	}
	return []byte(strings.Join(listed, ",")), added
}

// revokedIDs reads a list of ids separated by commas.
func revokedIDs(list []byte) (ids []string) {
	for id := range strings.SplitSeq(string(list), ",") {
		if id = strings.TrimSpace(id); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkRevoked refuses texts that cannot be ids. A text with a comma would revoke two other
// ids.
func checkRevoked(ids []string) error {
	var vs []fault.Violation
	if n := len(ids); n == 0 || n > maxRevokedIDs {
		vs = append(vs, fault.Violation{Path: "ids", Message: fmt.Sprintf("must be 1 to %d ids of tokens", maxRevokedIDs)})
	}
	for i, id := range ids[:min(len(ids), maxRevokedIDs)] {
		odd := func(r rune) bool { return r == ',' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
		if id == "" || len(id) > maxRevokedID || strings.ContainsFunc(id, odd) {
			vs = append(vs, fault.Violation{Path: fmt.Sprintf("ids[%d]", i), Message: fmt.Sprintf(
				"must be the id of a token (its claim jti): 1 to %d characters without spaces and commas", maxRevokedID)})
		}
	}
	return fault.Violated(vs)
}
