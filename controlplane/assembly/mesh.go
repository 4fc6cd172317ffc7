package assembly

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/addresses"
	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// meshParts is what only meshes need.
type meshParts struct {
	insights  *insight.Insights
	census    *census.Census
	tokens    *identity.DataplaneTokens
	workloads *meshca.Workloads
	rotations *meshca.Rotations
	renewals  *meshca.Renewals
	removals  *enrol.Removals
	admin     *adminlink.Server
	addresses *addresses.Keeper
	unusable  unusableKeys
}

// meshKinds lists the kinds whose resources belong to a mesh.
func meshKinds() []*model.Kind {
	kinds := slices.Concat(mesh.Kinds(), all.Kinds(), meshca.Kinds())
	return slices.DeleteFunc(kinds, func(k *model.Kind) bool { return k.Scoping != model.Mesh })
}

// openMesh opens what meshes need besides the store.
func (cp *ControlPlane) openMesh(ctx context.Context) error {
	status := memstore.NewStatus()
	if cp.cfg.Store.Type != "memory" {
		path := statusPath(cp.cfg)
		open := func(ctx context.Context) (store.Status, error) { return sqlstore.OpenStatus(ctx, path) }
		if cp.held.status != nil {
			open = cp.held.status.OpenStatus
		}
		var err error
		if status, err = open(ctx); err != nil {
			return fmt.Errorf("database %s: %w", path, err)
		}
	}
	m := &cp.mesh
	cp.snapshots = snapshot.New()
	m.census = cp.newCensus()
	insights, err := insight.Open(ctx, insight.Options{Changed: m.census.Changed, Store: status, Instance: cp.instance, Backends: cp.backends, Account: cp.account, Past: cp.clocks.wall.EarliestFor, Log: cp.Log})
	if err != nil {
		_ = status.Close() // the first error is the one that matters
		return err
	}
	m.insights = insights
	cp.closers.add(func(ctx context.Context) {
		if err := insights.Close(ctx); err != nil {
			cp.Log.Warn("insights could not be written at the end", "error", err)
		}
		cp.closeDatabase(ctx, "status", status.Close)
	})
	cp.runCensus(ctx)
	m.workloads = meshca.NewWorkloads(cp.store, time.Now)
	m.renewals = meshca.NewRenewals(cp.renewWorkload)
	m.admin = adminlink.NewServer(adminlink.Options{
		Auth: adsAuthenticator{cp}, Owner: owner, Connected: cp.linked, Log: cp.Log, Now: time.Now,
		Report: func(node string, r adminlink.Report) { m.insights.Told(node, r.Trouble, r.NotReady, r.Conditions) },
	})
	cp.closers.add(func(context.Context) { m.admin.Close() })
	return nil
}

// openRotations makes what changes meshes by itself, through the gate: the rotation
// of authorities, and the removal of Dataplanes whose proxies are gone.
func (cp *ControlPlane) openRotations(context.Context) error {
	held := &holds{board: cp.ready.conditions, progress: meshProgress{cp}, revisions: map[string]uint64{}}
	held.board.Probe(conditionRotations, held.judge)
	cp.mesh.rotations = meshca.NewRotations(meshca.Options{
		Store: cp.store, Writer: cp.gate.As(model.System("rotation")), Progress: meshProgress{cp},
		Now: time.Now, Clock: cp.clocks.wall, Log: cp.Log, LeafLife: leafLife,
		Grace: rotationGrace, Silence: rotationSilence, Held: held.told,
	})
	cp.mesh.removals = enrol.NewRemovals(cp.store, cp.gate.As(model.System("removal")), cp.cfg.Zone.Own(), cp.cfg.Dataplane.RemoveAfter, cp.Log)
	return nil
}

// rotationGrace is what proxies have to return after a start of the control plane
// before a new authority signs. They try every two seconds.
const rotationGrace = 30 * time.Second

// leafLife bounds how long certificates under a retired root may live.
func leafLife(a *mesh.Authority) time.Duration {
	life, err := meshca.LeafLife(a)
	if err != nil { // stored by an older version: such a mesh has no certificates
		return meshca.WorkloadLife
	}
	return life
}

// backends lists the authorities of a mesh.
func (cp *ControlPlane) backends(name string) []string {
	var out []string
	_ = cp.store.View(context.Background(), func(r store.Reader) error { // of a mesh that is gone nothing is said
		res, err := r.Get(mesh.Meshes, "", name)
		if err != nil {
			return err
		}
		if m := res.Spec.(*mesh.Mesh).MTLS; m != nil {
			for i := range m.Backends {
				out = append(out, m.Backends[i].Name)
			}
		}
		return nil
	})
	return out
}

// openLifecycle lets meshes come with what belongs to them, and makes sure that
// the default one exists.
func (cp *ControlPlane) openLifecycle(ctx context.Context) error {
	o := lifecycle.Options{Kinds: meshKinds(), GenerateCA: meshca.GenerateRoot, GenerateSigningKey: identity.GenerateSigningKey}
	for _, d := range all.Defaults() {
		o.Policies = append(o.Policies, lifecycle.DefaultPolicy{Kind: d.Kind, Prefix: d.Prefix, Spec: d.Spec()})
	}
	global := cp.cfg.Mode == config.ModeGlobal
	lifecycle.Hook(cp.gate, lifecycle.Whole{Options: o, Limits: ratelimit.Kind, Online: cp.zoneOnline, Global: global})
	if global {
		return cp.ensureMesh(ctx)
	}
	if err := lifecycle.EnsureZone(ctx, cp.gate.As(model.System("lifecycle")), cp.cfg.Zone.Own()); err != nil {
		if fault.CodeOf(err) != fault.Internal || !cp.holds(ctx, mesh.Zones) {
			return err
		}
		cp.Log.Error("the zone of this control plane cannot be looked after", "error", err)
	}
	if err := cp.completeStoredDataplanes(ctx); err != nil {
		return err
	}
	return cp.ensureMesh(ctx)
}

// ensureMesh sees to it that the default mesh exists, unless the operator wants none.
func (cp *ControlPlane) ensureMesh(ctx context.Context) error {
	if cp.cfg.Defaults.SkipMeshCreation {
		return nil
	}
	err := lifecycle.Ensure(ctx, cp.gate.As(model.System("lifecycle")), mesh.Default)
	if fault.CodeOf(err) == fault.Internal && cp.holds(ctx, mesh.Meshes) {
		// There is one that cannot be read. It keeps nobody else from starting.
		cp.Log.Error("the default mesh cannot be looked after", "error", err)
		return nil
	}
	return err
}

// holds reports whether the store has resources of a global kind.
func (cp *ControlPlane) holds(ctx context.Context, k *model.Kind) bool {
	n := 0
	err := cp.store.View(ctx, func(r store.Reader) (err error) {
		n, err = r.Count(k, store.Query{})
		return err
	})
	return err == nil && n > 0
}

// proxies is what the data-plane server needs to enrol proxies of meshes.
func (cp *ControlPlane) proxies() *enrol.Mesh {
	return &enrol.Mesh{Tokens: cp.mesh.tokens, Documents: cp.gate, CA: cp.authority.PEM, Names: cp.names, Zone: zoneTokens{cp}, Confirmed: func(ctx context.Context, revision uint64) error {
		_, err := progress{cp.loop, cp.snapshots, cp.nodes, cp.store.Revision}.Wait(ctx, revision, func(string, string) bool { return true })
		return err
	}}
}

// renewRetry is after how long, at most, a certificate that could not be renewed is
// tried again.
const renewRetry = time.Minute

// renewWorkload replaces the certificate of a connected proxy. An egress is known by the id of its
// node, which no dataplane has for a name.
func (cp *ControlPlane) renewWorkload(meshName, dataplane string) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	node := mesh.NodeID(meshName, dataplane)
	if _, _, zonal := mesh.ParseZoneNode(dataplane); zonal {
		node = dataplane
	}
	if !cp.snapshots.Get(node).AllowsSecret(mesh.SecretIdentity(meshName)) {
		return // it asks when it returns
	}
	// What the set wants is said with the question: whoever turns to other tags
	// meanwhile must not get the one of the old tags after its own.
	generation := cp.generation(node, mesh.SecretIdentity(meshName))
	res, err := cp.loop.Secret(ctx, node, mesh.SecretIdentity(meshName), generation)
	if err != nil {
		cp.Log.Warn("the certificate of a proxy could not be renewed and is tried again", "node", node, "in", renewRetry.String(), "error", err)
		cp.mesh.renewals.Note(meshName, dataplane, time.Now(), time.Now().Add(renewRetry))
		return
	}
	cp.xds.PushSecret(node, generation, res)
}

// generation is what the set of a node wants of a secret at present.
func (cp *ControlPlane) generation(node, secret string) string {
	generation, _ := cp.snapshots.Get(node).Generation(secret)
	return generation
}

// happened acts on one event.
func (cp *ControlPlane) happened(ctx context.Context, e store.Event) {
	switch e.Key.Kind {
	case mesh.Secrets.Name:
		cp.mesh.rotations.Changed(e.Key.Scope)
		if strings.HasPrefix(e.Key.Name, mesh.TokenSigningKey) || strings.HasPrefix(e.Key.Name, mesh.TokenRevocations) {
			cp.recheck(ctx)
			cp.signingKeyChanged(e.Key.Scope)
			cp.judgeSigningKeys(ctx, e.Key.Scope)
		}
	case mesh.GlobalSecrets.Name:
		if e.Key.Name == mesh.GatewayTokenRevocations || strings.HasPrefix(e.Key.Name, mesh.ZoneToken) || strings.HasPrefix(e.Key.Name, mesh.ZoneIngressToken) {
			cp.recheck(ctx)
		}
	case cloud.ClientCertificates.Name:
		if e.Op != store.Created {
			cp.recheck(ctx)
		}
	case cloud.ControlPlanes.Name:
		cp.uploadedChanged()       // texts have the names of control planes
		if e.Op != store.Created { // it may be gone, and no token of its gateways counts then
			cp.recheck(ctx)
		}
		if e.Op == store.Deleted {
			cp.forgetControlPlane(e.Key.Name)
		}
	case mesh.ZoneIngresses.Name, mesh.ZoneEgresses.Name:
		cp.zoneProxyWritten(ctx, e.Op, mesh.ZoneProxyOf(e.Key.Kind), e.Key.Name)
	case mesh.Meshes.Name:
		cp.mesh.rotations.Changed(e.Key.Name)
		if e.Op != store.Deleted {
			cp.mesh.removals.MeshWritten(e.Key.Name)
		}
	case mesh.Dataplanes.Name:
		cp.dataplane(ctx, e.Op, e.Key.Scope, e.Key.Name)
	case gateway.Certificates.Name, gateway.SNIs.Name, gateway.CACertificates.Name:
		cp.uploadedChanged()
	}
}

// dataplane acts on one event of a Dataplane. What is stored decides and not the
// event, which may be late: the Dataplane may be there again.
func (cp *ControlPlane) dataplane(ctx context.Context, op store.Op, meshName, name string) {
	there, instance := cp.stored(ctx, meshName, name)
	if op == store.Deleted && !there {
		cp.forget(meshName, name)
	} else {
		cp.mesh.removals.Written(meshName, name, instance)
		cp.remember(meshName, name)
		if op == store.Created {
			cp.mesh.insights.Created(meshName, name)
		} else {
			cp.mesh.insights.Expect(mesh.NodeID(meshName, name))
		}
	}
	// Its tags may not be those of its token. A node that is on its way has no set
	// yet: whether it has one says nothing.
	if op != store.Created {
		cp.recheck(ctx, mesh.NodeID(meshName, name))
	}
}

// recheck ends everything that nodes have open with a token that no longer counts:
// of the named nodes, or of all.
func (cp *ControlPlane) recheck(ctx context.Context, nodes ...string) {
	cp.xds.Recheck(ctx, nodes...)
	cp.revoker.Recheck(ctx, nodes...)
	cp.mesh.admin.Recheck(ctx, nodes...)
}

// checksTokens reports whether a node has tokens to look up: each gateway may, a
// proxy of a mesh does where its configuration has a chain of plugins. It is asked
// when a filter opens its link, and waits for nobody.
func (cp *ControlPlane) checksTokens(n revoke.Node) bool {
	return strings.HasPrefix(n.ID, "cp/") || cp.snapshots.HasPlugins(n.ID)
}

// planned returns when it is known which plugins a node may ask about: of a gateway
// when its control plane is followed, of a proxy of a mesh when it is connected.
func (cp *ControlPlane) planned(ctx context.Context, n revoke.Node) {
	if strings.HasPrefix(n.ID, "cp/") {
		if err := cp.loop.Follow(ctx, n.ID); err != nil && ctx.Err() == nil {
			cp.Log.Warn("a gateway may not ask about tokens yet", "node", n.ID, "error", err)
		}
		return
	}
	for {
		moved := cp.snapshots.Moved()
		if cp.snapshots.Get(n.ID) != nil {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// DataplaneTokens issues the tokens of proxies.
func (cp *ControlPlane) DataplaneTokens() *identity.DataplaneTokens { return cp.mesh.tokens }
