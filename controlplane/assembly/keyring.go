package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
)

// keyring implements meshapi.Keyring.
type keyring struct{ cp *ControlPlane }

// Rotate implements meshapi.Keyring.
func (k keyring) Rotate(ctx context.Context, kind string, r meshapi.KeyRotation) (string, error) {
	if err := checkRotation(kind, r); err != nil {
		return "", err
	}
	if r.Compromised {
		return k.withdraw(ctx, kind, r.Mesh)
	}
	switch kind {
	case meshapi.KeysNodeTokens:
		serial, err := k.cp.tokens.Rotate(ctx, k.cp.gate)
		if err != nil {
			return "", err
		}
		k.cp.renewTokens.add(k.cp.mesh.admin.Linked()...)
		return fmt.Sprintf("Key %s signs node tokens from now on. Connected gateways take new tokens now, the others when they connect. Delete the old key once `meshgate keys list` shows that no node uses it.", serial), nil
	case meshapi.KeysDataplaneTokens:
		// The new key causes an event, and the handler of the event asks the proxies.
		serial, err := k.cp.mesh.tokens.Rotate(ctx, k.cp.gate, r.Mesh)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Key %s signs the dataplane tokens of mesh %s from now on. Connected proxies take new tokens now, the others when they connect. Delete the old key once `meshgate keys list` shows that no proxy uses it.", serial, r.Mesh), nil
	case meshapi.KeysUserTokens, meshapi.KeysZoneTokens, meshapi.KeysZoneIngressTokens:
		serial, err := k.cp.people.Rotate(ctx, k.cp.gate, globalTokens[kind])
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Key %s signs %s tokens from now on. Tokens of the old keys count until these are deleted.", serial, globalTokens[kind]), nil
	case meshapi.KeysAudit:
		serial, err := k.cp.cloud.keys.Rotate(ctx, k.cp.gate)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Key %s signs audit events from now on. jwks.json has it and the old ones: receivers that keep a copy fetch it again. Delete the old key when no receiver verifies what it signed.", serial), nil
	case meshapi.KeysAuthority:
		return k.rollover(ctx, r.Force)
	case meshapi.KeysEncryption:
		return k.cp.encryption.rotate(ctx, r.ForgetOld)
	}
	return "", unknownKind(kind)
}

// globalTokens are the kinds of tokens whose keys are global secrets.
var globalTokens = map[string]identity.TokenKind{
	meshapi.KeysUserTokens: identity.UserToken, meshapi.KeysZoneTokens: identity.ZoneToken, meshapi.KeysZoneIngressTokens: identity.ZoneIngressToken,
}

// checkRotation refuses options that do not belong to a kind.
func checkRotation(kind string, r meshapi.KeyRotation) error {
	if !slices.Contains(meshapi.Rotatable, kind) {
		return unknownKind(kind)
	}
	var vs []fault.Violation
	switch {
	case kind == meshapi.KeysDataplaneTokens && r.Mesh == "":
		vs = append(vs, fault.Violation{Path: "mesh", Message: "is needed: the keys of dataplane tokens are those of one mesh"})
	case kind != meshapi.KeysDataplaneTokens && r.Mesh != "":
		vs = append(vs, fault.Violation{Path: "mesh", Message: "does not belong to " + kind})
	}
	if r.ForgetOld && kind != meshapi.KeysEncryption {
		vs = append(vs, fault.Violation{Path: "forgetOld", Message: "does not belong to " + kind})
	}
	if r.Force && kind != meshapi.KeysAuthority {
		vs = append(vs, fault.Violation{Path: "force", Message: "does not belong to " + kind})
	}
	if text := checkCompromised(kind, r); text != "" {
		vs = append(vs, fault.Violation{Path: "compromised", Message: text})
	}
	return fault.Violated(vs)
}

// otherwise says how the listed keys that no command rotates are replaced.
var otherwise = map[string]string{
	kindMeshAuthority: `the root of a mesh is replaced in its secrets, docs/mesh.md has the steps ("A new root")`,
	kindRecords:       "each is replaced by itself after 30 days",
	kindCertificate:   "upload a successor with PATCH /certificates/{id} of the administration API; the default one is renewed by itself",
	kindPassword:      "docs/operations/keys.md says how each is replaced",
}

func unknownKind(kind string) error {
	if how := otherwise[kind]; how != "" {
		return fault.New(fault.NotFound, "keys of the kind %q are not rotated by this command: %s", kind, how)
	}
	return fault.New(fault.NotFound, "there is nothing to do for keys of the kind %q; the kinds are %s", kind, strings.Join(meshapi.Rotatable, ", "))
}

// Delete implements meshapi.Keyring. Streams and links whose tokens are signed with the key
// end at once.
func (k keyring) Delete(ctx context.Context, kind, name string, force bool) error {
	if kind == meshapi.KeysAudit {
		if force { // the key that signs is needed in any case, and nobody holds what the others signed
			return fault.Violated([]fault.Violation{{Path: "force", Message: "does not belong to " + kind}})
		}
		return k.cp.cloud.keys.Delete(ctx, k.cp.gate, name)
	}
	if kind != meshapi.KeysNodeTokens {
		return fault.New(fault.NotFound, "keys of the kind %q are not deleted here; those of dataplane tokens are secrets of their mesh, and those of users and zones are global secrets", kind)
	}
	err := k.cp.tokens.Delete(ctx, k.cp.gate, name, func(keys int) error {
		if force {
			return nil
		}
		return k.cp.uses.MayDelete("signing key "+name+" of node tokens", "cp/", name, keys == 1)
	})
	// The caller may be gone, and the key may be deleted even if an error is returned.
	k.cp.recheck(context.WithoutCancel(ctx))
	return err
}

// MayRemove implements meshapi.Keyring.
func (k keyring) MayRemove(r store.Reader, stored *model.Resource) error {
	return k.cp.uses.MayRemove(r, stored)
}

// staleToken reports whether the last token that a node has shown was signed with a key that
// no longer signs.
func (cp *ControlPlane) staleToken(ctx context.Context, node string) bool {
	key := cp.uses.Key(node)
	if key == "" {
		return false
	}
	if _, _, zonal := mesh.ParseZoneNode(node); zonal {
		return false // whoever made the token replaces it
	}
	meshName, _, err := publish.ParseProxy(node)
	if err != nil {
		return key != cp.tokens.Newest()
	}
	newest, err := cp.mesh.tokens.Newest(ctx, meshName)
	return err == nil && key != newest
}

// linked is called when the link of an agent opens. An agent that was away when the signing
// key changed comes with a token of an old key, and is asked to take a new one.
func (cp *ControlPlane) linked(ctx context.Context, node, token string, until time.Time) {
	cp.uses.Linked(node, identity.KeyID(token), until)
	cp.renewTokens.add(node)
	cp.tellRoots(ctx, node)
}

// signingKeyChanged makes the proxies of a mesh take tokens of its newest key.
func (cp *ControlPlane) signingKeyChanged(meshName string) {
	cp.renewTokens.add(slices.DeleteFunc(cp.mesh.admin.Linked(), func(node string) bool {
		return !strings.HasPrefix(node, mesh.NodeID(meshName, ""))
	})...)
}

// asking bounds how many agents are asked at the same time, because the control plane signs a
// token for each of them at once.
const asking = 16

// tokenRenewer asks agents to take new tokens. It does not retry: an agent that cannot be
// asked shows its token when it connects again.
type tokenRenewer struct {
	stale func(ctx context.Context, node string) bool
	ask   func(ctx context.Context, node string) error
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	waiting map[string]bool
}

func (cp *ControlPlane) newTokenRenewer() *tokenRenewer {
	return &tokenRenewer{
		stale: cp.staleToken, log: cp.Log, wake: make(chan struct{}, 1), waiting: map[string]bool{},
		ask: func(ctx context.Context, node string) error {
			_, err := cp.mesh.admin.Ask(ctx, node, adminlink.RenewPath)
			return err
		},
	}
}

// add queues nodes. Those with a stale token are asked to renew it.
func (t *tokenRenewer) add(nodes ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range nodes {
		t.waiting[n] = true
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run asks agents until ctx ends, and returns the error of ctx.
func (t *tokenRenewer) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.wake:
		}
		t.mu.Lock()
		nodes := t.waiting
		t.waiting = map[string]bool{}
		t.mu.Unlock()
		var g errgroup.Group
		g.SetLimit(asking)
		for node := range nodes {
			g.Go(func() error { t.renew(ctx, node); return nil })
		}
		_ = g.Wait() // renew returns no errors
	}
}

func (t *tokenRenewer) renew(ctx context.Context, node string) {
	if !t.stale(ctx, node) {
		return
	}
	err := t.ask(ctx, node)
	switch {
	case err == nil:
		t.log.Info("an agent was asked to take a new token, because another key signs", "node", node)
	case ctx.Err() == nil && !errors.Is(err, adminlink.ErrNotConnected):
		t.log.Warn("an agent could not be asked to take a new token; its token needs to be replaced before the key that signed it is deleted", "node", node, "error", err)
	}
}
