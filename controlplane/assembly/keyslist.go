package assembly

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The states of keys.
const (
	keyActive      = "active"
	keyAccepted    = "accepted"
	keyTrusted     = "trusted"
	keyCompromised = "compromised"
)

// The kinds of keys that are listed and that no command rotates.
const (
	kindMeshAuthority = "mesh-ca"
	kindRecords       = "records"
	kindCertificate   = "certificate"
	kindPassword      = "password"
)

// List implements meshapi.Keyring.
func (k keyring) List(ctx context.Context) ([]meshapi.Key, error) {
	keys, err := k.cp.encryption.list(ctx, k.cp.cfg.Store.Encryption.Key)
	if err != nil {
		return nil, err
	}
	signers, err := k.authority()
	if err != nil {
		return nil, err
	}
	keys = append(keys, signers...)
	keys = append(keys, k.nodeTokens()...)
	global, err := k.ofControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	keys = append(keys, global...)
	more, err := k.ofMeshes(ctx)
	if err != nil {
		return nil, err
	}
	keys = append(keys, more...)
	keys = append(keys, k.auditLog()...)
	keys = append(keys, k.records()...)
	if more, err = k.certificates(ctx); err != nil {
		return nil, err
	}
	keys = append(keys, more...)
	return append(keys, k.settings()...), nil
}

// authority lists the control plane's authority, and during a replacement also the other one.
func (k keyring) authority() ([]meshapi.Key, error) {
	current, other, err := k.cp.authority.Signers()
	if err != nil {
		return nil, err
	}
	phase, next := k.cp.authority.Phase(), "meshgate keys rotate "+meshapi.KeysAuthority
	if phase != "" {
		next += ", the step after: " + phase
	}
	row := func(d identity.Described, state string) meshapi.Key {
		return meshapi.Key{
			Kind: meshapi.KeysAuthority, Name: d.Name, Purpose: "certificates of the data-plane server, of gateways and of port 8443", Algorithm: d.Algorithm,
			State: state, Since: &d.NotBefore, Expires: &d.Until, InUse: counted(len(k.cp.snapshots.Nodes()), "connected node"), Next: next,
		}
	}
	out := []meshapi.Key{row(current, keyActive)}
	if other != nil {
		out = append(out, row(*other, keyTrusted))
	}
	return out, nil
}

func (k keyring) nodeTokens() (out []meshapi.Key) {
	for _, key := range k.cp.tokens.Keys() {
		out = append(out, k.signingKey(meshapi.KeysNodeTokens, "", "tokens of gateways", "cp/", key))
	}
	return out
}

// ofControlPlane lists the keys of the tokens of users and zones. Nobody knows who holds their
// tokens.
func (k keyring) ofControlPlane(ctx context.Context) (out []meshapi.Key, err error) {
	err = k.cp.store.View(ctx, func(r store.Reader) error {
		for _, kind := range []string{meshapi.KeysUserTokens, meshapi.KeysZoneTokens, meshapi.KeysZoneIngressTokens} {
			keys, err := k.cp.people.Keys(r, globalTokens[kind])
			if err != nil {
				return err
			}
			for _, key := range keys {
				row := k.signingKey(kind, "", "tokens of "+string(globalTokens[kind])+"s", "", key)
				row.InUse = ""
				if row.State == keyAccepted {
					row.Next = "delete it when nobody holds tokens of it"
				}
				out = append(out, row)
			}
		}
		return nil
	})
	return out, err
}

// signingKey describes a key that signs tokens of the nodes whose names have a prefix.
func (k keyring) signingKey(kind, meshName, purpose, prefix string, key identity.SigningKey) meshapi.Key {
	out := meshapi.Key{
		Kind: kind, Name: key.Serial, Mesh: meshName, Purpose: purpose, Algorithm: fmt.Sprintf("RSA %d, RS256", key.Bits), State: keyAccepted, Since: &key.Since,
		InUse: counted(len(k.cp.uses.Of(prefix, key.Serial)), "node"), Next: "delete it when no node uses it",
	}
	if key.Withdrawn {
		out.State, out.Next = keyCompromised, "none: no token of it counts; its nodes need new tokens"
		return out
	}
	if key.Bits == 0 {
		out.Algorithm, out.State = "unreadable", "unusable"
	}
	if key.Signs {
		out.State, out.Next = keyActive, "meshgate keys rotate "+kind
		if meshName != "" {
			out.Next += " --mesh " + meshName
		}
	}
	return out
}

// ofMeshes lists the signing keys and authorities of all meshes.
func (k keyring) ofMeshes(ctx context.Context) (out []meshapi.Key, err error) {
	err = k.cp.store.View(ctx, func(r store.Reader) error {
		meshes, _, err := store.ListReadable(r, mesh.Meshes, "")
		if err != nil {
			return err
		}
		for _, m := range meshes {
			keys, err := k.cp.mesh.tokens.Keys(r, m.Name)
			if err != nil {
				return err
			}
			for _, key := range keys {
				out = append(out, k.signingKey(meshapi.KeysDataplaneTokens, m.Name, "tokens of proxies", mesh.NodeID(m.Name, ""), key))
			}
			signers, err := k.meshAuthority(r, m.Name)
			if err != nil {
				return err
			}
			out = append(out, signers...)
		}
		return nil
	})
	return out, err
}

// meshAuthority lists the authority that signs the certificates of a mesh, and the one that
// will sign them next.
func (k keyring) meshAuthority(r store.Reader, meshName string) ([]meshapi.Key, error) {
	phase, current, pending, err := meshca.Signers(r, meshName)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	next := "docs/mesh.md, A new root"
	if phase != "" {
		next = "a rotation is under way: " + phase
	}
	row := func(d identity.Described, state string) meshapi.Key {
		return meshapi.Key{
			Kind: kindMeshAuthority, Name: d.Name, Mesh: meshName, Purpose: "certificates of proxies", Algorithm: d.Algorithm, State: state,
			Since: &d.NotBefore, Expires: &d.Until, Next: next,
		}
	}
	out := []meshapi.Key{row(current, keyActive)}
	if pending != nil {
		out = append(out, row(*pending, keyTrusted))
	}
	return out, nil
}

// auditLog lists the keys that sign the audit log. Receivers know them by their kid. Nobody knows who still
// verifies with which.
func (k keyring) auditLog() (out []meshapi.Key) {
	for _, key := range k.cp.cloud.keys.Keys() {
		row := meshapi.Key{
			Kind: meshapi.KeysAudit, Name: key.Serial, Purpose: "signatures of audit events, kid " + audit.KeyOf(key.Public).ID, Algorithm: "Ed25519", State: keyAccepted, Since: &key.Since,
			Next: "delete it when no receiver verifies what it signed",
		}
		switch {
		case key.Withdrawn:
			row.State, row.Next = keyCompromised, "none: what it signed proves nothing"
		case key.Signs:
			row.State, row.Next = keyActive, "meshgate keys rotate "+meshapi.KeysAudit
		}
		out = append(out, row)
	}
	return out
}

// records lists the keys that sign records in Redis.
func (k keyring) records() (out []meshapi.Key) {
	keys, next := k.cp.revoker.RecordKeys()
	for _, key := range keys {
		row := meshapi.Key{
			Kind: kindRecords, Name: key.Name, Purpose: "records of tokens in Redis", Algorithm: "Ed25519", State: keyAccepted, Since: &key.Created,
			Next: "none: it goes by itself",
		}
		if key.Signs {
			row.State, row.Next = keyActive, "by itself, "+next.UTC().Format(time.DateOnly)
		}
		out = append(out, row)
	}
	return out
}

// certificates lists the certificates that gateways present.
func (k keyring) certificates(ctx context.Context) (out []meshapi.Key, err error) {
	d, renewed, err := identity.ListenerCertificate(ctx, k.cp.store)
	switch {
	case err == nil:
		out = append(out, meshapi.Key{
			Kind: kindCertificate, Name: d.Name, Purpose: "what gateways show where no certificate has the name", Algorithm: d.Algorithm, State: keyActive,
			Since: &d.NotBefore, Expires: &d.Until, Next: "by itself, " + renewed.UTC().Format(time.DateOnly),
		})
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	err = k.cp.store.View(ctx, func(r store.Reader) error {
		uploaded, err := uploadedKeys(r)
		out = append(out, uploaded...)
		return err
	})
	return out, err
}

// uploadedKeys lists the certificates of all control planes.
func uploadedKeys(r store.Reader) (out []meshapi.Key, err error) {
	all, err := controlPlanes(r)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		list, _, err := store.ListReadable(r, gateway.Certificates, p.scope)
		if err != nil {
			return nil, err
		}
		for _, res := range list {
			d, err := identity.Describe([]byte(res.Spec.(*gateway.Certificate).Cert))
			if err != nil {
				continue // certificates are checked when they are written
			}
			row := meshapi.Key{
				Kind: kindCertificate, Name: res.Name, Purpose: "what gateways" + p.of(all) + " show for its names", Algorithm: d.Algorithm, State: keyActive,
				Since: &d.NotBefore, Expires: &d.Until, Next: "PATCH " + p.path("/certificates/"+res.Name),
			}
			if len(all) > 1 {
				row.ControlPlane = p.name
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// settings lists the credentials that come from settings. Nothing is known about them except
// that they are set.
func (k keyring) settings() (out []meshapi.Key) {
	for _, s := range []struct{ name, url, purpose string }{
		{"redis.url", k.cp.cfg.Redis.URL, "the control plane at Redis"},
		{"redis.nodeURL", k.cp.cfg.Redis.NodeURL, "filters at Redis, which only read"},
	} {
		if u, err := url.Parse(s.url); err == nil && u.User != nil {
			out = append(out, meshapi.Key{Kind: kindPassword, Name: s.name, Purpose: s.purpose, Algorithm: "password", State: keyActive, Next: "docs/operations/keys.md"})
		}
	}
	if k.cp.AdminToken != "" {
		out = append(out, meshapi.Key{
			Kind: kindPassword, Name: "admin.token", Purpose: "callers of the administration API", Algorithm: "bearer token", State: keyActive, Next: "docs/operations/keys.md",
		})
	}
	return out
}

// counted formats a number of things for people.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
