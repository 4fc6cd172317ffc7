package assembly

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
)

// withdraw replaces the keys of a kind because one of them is compromised. When it returns,
// even with an error, connections that were opened with their tokens are being ended. This is
// necessary after an error as well, because the keys may be withdrawn nevertheless.
func (k keyring) withdraw(ctx context.Context, kind, meshName string) (said string, err error) {
	if of, ok := globalTokens[kind]; ok {
		return k.withdrawGlobal(ctx, kind, of)
	}
	if kind == meshapi.KeysAudit {
		return k.withdrawAudit(ctx)
	}
	var out identity.Withdrawal
	prefix := "cp/"
	if kind == meshapi.KeysDataplaneTokens {
		prefix = mesh.NodeID(meshName, "")
		out, err = k.cp.mesh.tokens.Withdraw(ctx, k.cp.gate, meshName)
	} else {
		out, err = k.cp.tokens.Withdraw(ctx, k.cp.gate)
	}
	if k.cp.ownToken != nil && kind == meshapi.KeysNodeTokens {
		if err := k.cp.ownToken(); err != nil {
			k.cp.Log.Error("the gateway beside this control plane has no good token; the next start gives it one", "error", err)
		}
	}
	// The caller may be gone; that must not keep a stream open.
	k.cp.recheck(context.WithoutCancel(ctx))
	if err != nil {
		return "", err
	}
	k.cp.Log.Warn("keys were withdrawn because one of them is compromised; no token of them counts", "kind", kind, "mesh", meshName, "keys", out.Withdrawn, "signs", out.Serial)
	return k.withdrawn(kind, meshName, prefix, out), nil
}

// withdrawGlobal replaces the keys of the tokens of users or zones. Administrators get a new
// first token, because nobody else could give them one.
func (k keyring) withdrawGlobal(ctx context.Context, kind string, of identity.TokenKind) (said string, err error) {
	out, err := k.cp.people.Withdraw(ctx, k.cp.gate, of)
	if err != nil {
		return "", err
	}
	k.cp.Log.Warn("keys were withdrawn because one of them is compromised; no token of them counts", "kind", kind, "keys", out.Withdrawn, "signs", out.Serial)
	first := ""
	if of == identity.UserToken && k.cp.cfg.Access.BootstrapAdminToken {
		if err := k.cp.people.EnsureAdmin(ctx, k.cp.gate, true); err != nil {
			return "", err
		}
		first = " The global secret " + mesh.AdminUserToken + " has a new token of an administrator."
	}
	return fmt.Sprintf("Key %s signs %s tokens from now on. Withdrawn: %s. Every token of a withdrawn key is refused from now on: issue new ones (POST /tokens/%s).%s",
		out.Serial, of, keysNamed(out.Withdrawn), of, first), nil
}

// withdrawAudit replaces the keys of the audit log.
func (k keyring) withdrawAudit(ctx context.Context) (said string, err error) {
	out, err := k.cp.cloud.keys.Withdraw(ctx, k.cp.gate)
	if err != nil {
		return "", err
	}
	k.cp.Log.Warn("keys were withdrawn because one of them is compromised; no receiver should believe what they signed", "kind", meshapi.KeysAudit, "keys", out.Withdrawn, "signs", out.Serial)
	return fmt.Sprintf("Key %s signs audit events from now on. Withdrawn: %s. jwks.json has the new key only. Receivers drop their copies of the set and fetch it again: "+
		"docs/operations/keys.md, \"The key of the audit log\", says what else to do.", out.Serial, keysNamed(out.Withdrawn)), nil
}

// withdrawn describes what has happened and what the operator has to do.
func (k keyring) withdrawn(kind, meshName, prefix string, out identity.Withdrawal) string {
	var nodes []string
	for _, key := range out.Withdrawn {
		nodes = append(nodes, k.cp.uses.Of(prefix, key)...)
	}
	slices.Sort(nodes)
	what, endpoint := "node tokens", "/tokens/gateway"
	if kind == meshapi.KeysDataplaneTokens {
		what, endpoint = "the dataplane tokens of mesh "+meshName, "/tokens/dataplane"
	}
	known := "No node has shown such a token since this control plane started."
	if len(nodes) > 0 {
		known = "Since this control plane started, " + identity.Named(nodes) + " came with such tokens."
	}
	return fmt.Sprintf("Key %s signs %s from now on. Withdrawn: %s. Every token of a withdrawn key is refused from now on and exchanged for nothing, "+
		"also those of honest nodes and those that were exchanged before. %s Give each node that you know a new token (POST %s of the mesh API, into its token file; nothing restarts): "+
		"`meshgate status` shows who is still refused, with the reason. What was fetched with forged tokens is not taken back: "+
		"docs/operations/keys.md, \"A stolen key\", says what that is, how long it is good, and how to end it.",
		out.Serial, what, keysNamed(out.Withdrawn), known, endpoint)
}

// keysNamed lists keys in a text for people.
func keysNamed(serials []string) string {
	if len(serials) == 1 {
		return "key " + serials[0]
	}
	return "keys " + strings.Join(serials, ", ")
}

// checkCompromised says why a kind of key cannot be withdrawn. The text is empty if it can,
// or if no withdrawal is requested.
func checkCompromised(kind string, r meshapi.KeyRotation) string {
	if r.Compromised && !slices.Contains(meshapi.Withdrawable, kind) {
		return "does not belong to " + kind + ", of which docs/operations/keys.md says what to do after a theft"
	}
	return ""
}
