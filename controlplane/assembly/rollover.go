package assembly

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
)

// rootsTold remembers which roots each agent has stored, by their digest, until its node is
// removed. It is only in memory, because agents are told the roots whenever they connect.
type rootsTold struct {
	mu sync.Mutex
	by map[string][sha256.Size]byte
}

func (r *rootsTold) set(node string, roots []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string][sha256.Size]byte{}
	}
	r.by[node] = sha256.Sum256(roots)
}

// forget drops a node that was removed.
func (r *rootsTold) forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, node)
}

func (r *rootsTold) has(node string, roots []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[node] == sha256.Sum256(roots)
}

// writeCA writes the trusted certificates into a file for others.
func (cp *ControlPlane) writeCA() error { return writeCA(cp.CAFile, cp.authority.PEM()) }

// tellRoots sends an agent the roots to trust from now on.
func (cp *ControlPlane) tellRoots(ctx context.Context, node string) {
	roots := cp.authority.PEM()
	if err := cp.mesh.admin.Trust(ctx, node, roots); err != nil {
		if ctx.Err() == nil {
			cp.Log.Debug("an agent does not take the control plane's roots", "node", node, "error", err)
		}
		return
	}
	cp.roots.set(node, roots)
}

// advance takes a step in the replacement of the authority and tells all connected agents.
func (cp *ControlPlane) advance(ctx context.Context, from string) error {
	if err := cp.authority.Advance(ctx, cp.gate.As(model.System("rollover")), from); err != nil {
		return err
	}
	cp.Log.Info("the control plane's authority is replaced", "phase", cp.authority.Phase())
	if err := cp.writeCA(); err != nil {
		return fmt.Errorf("the step is taken, but %s could not be written, which the next start does: %w", cp.CAFile, err)
	}
	cp.renewNow()
	cp.tellRootsTo(ctx, cp.mesh.admin.Linked())
	return nil
}

// tellRootsTo sends agents the roots to trust from now on.
func (cp *ControlPlane) tellRootsTo(ctx context.Context, nodes []string) {
	var g errgroup.Group
	g.SetLimit(asking)
	for _, node := range nodes {
		g.Go(func() error { cp.tellRoots(ctx, node); return nil })
	}
	_ = g.Wait() // tellRoots returns no errors
}

// renewNow wakes the check of the certificates and roots of gateways.
func (cp *ControlPlane) renewNow() {
	select {
	case cp.renewWake <- struct{}{}:
	default:
	}
}

// successor starts the replacement of the authority two years before its end.
func (cp *ControlPlane) successor(ctx context.Context) {
	if !cp.authority.SuccessorDue() {
		return
	}
	if err := cp.advance(ctx, ""); err != nil {
		cp.Log.Error("the control plane's authority ends in less than two years and has no successor", "error", err)
	}
}

// rollover takes the next step if every connected node is ready for it.
func (k keyring) rollover(ctx context.Context, force bool) (string, error) {
	from := k.cp.authority.Phase()
	if !force {
		missing, err := k.notReady(ctx, from)
		if err != nil {
			return "", err
		}
		if len(missing) > 0 {
			return "", fault.New(fault.Conflict, "not every connected node is ready for this step; try again in a moment. It would cut off %s. --force takes it nevertheless", identity.Named(missing))
		}
	}
	if err := k.cp.advance(ctx, from); err != nil {
		return "", err
	}
	const again = " When that is so, `meshgate keys rotate " + meshapi.KeysAuthority + "` takes the next step, and refuses while a connected node is not ready."
	switch k.cp.authority.Phase() {
	case identity.RolloverTrusting:
		return "Step 1 of 3: a new authority is trusted beside the old one, which signs. Connected nodes are told now, the others when they connect. Give the new " + k.cp.CAFile +
			" to whoever else has a copy, and wait for nodes that are away: from step 2 on they can only return with it." + again, nil
	case identity.RolloverSigning:
		return "Step 2 of 3: the new authority signs; both are trusted. Connected gateways get new certificates now." + again, nil
	}
	return "Step 3 of 3: the old authority is trusted no more. The replacement is complete.", nil
}

// notReady lists connected nodes that the step from a phase would cut off.
func (k keyring) notReady(ctx context.Context, from string) (missing []string, err error) {
	if from == "" {
		return nil, nil
	}
	roots, nodes := k.cp.authority.PEM(), k.cp.snapshots.Nodes()
	// A node that did not take the roots when it connected may take them now. A node that was
	// removed and has come back may have been forgotten after it was told.
	k.cp.tellRootsTo(ctx, slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return k.cp.roots.has(node, roots) }))
	for _, node := range nodes {
		ready := k.cp.roots.has(node, roots)
		if ready && strings.HasPrefix(node, "cp/") {
			if ready, err = k.envoyHolds(ctx, node, from, roots); err != nil {
				return nil, err
			}
		}
		if !ready {
			missing = append(missing, node)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// envoyHolds reports whether the Envoy of a gateway has what the step from a phase requires:
// the roots, and in the second phase a certificate of the new authority.
func (k keyring) envoyHolds(ctx context.Context, node, from string, roots []byte) (bool, error) {
	dump, err := k.cp.mesh.admin.Ask(ctx, node, "/config_dump")
	if err != nil {
		return false, nil //nolint:nilerr // it is not ready
	}
	want := roots
	if from == identity.RolloverSigning {
		pair, err := k.cp.authority.Node(node)
		if err != nil {
			return false, err
		}
		want = pair.Certificate
	}
	return bytes.Contains(dump, []byte(base64.StdEncoding.EncodeToString(want))), nil
}
