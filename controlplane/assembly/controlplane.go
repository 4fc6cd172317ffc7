package assembly

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/meshgate/meshgate/controlplane/access/oidc"
	"github.com/meshgate/meshgate/controlplane/addresses"
	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/crossings"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/presence"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/notice"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/controlplane/zones"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/probing"
	xds "github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// gatewayIdle is how long the connections of gateways to the OAuth server may be
// without a request; gateways end them before, and are known by their certificates.
const gatewayIdle = time.Hour

// stopTime bounds an orderly end of the control plane.
const stopTime = 15 * time.Second

// ControlPlane is everything that `meshgate run` runs.
type ControlPlane struct {
	cfg   *config.Config
	held  claims
	Log   *slog.Logger
	ports *listeners
	store store.Store
	// commits is store, which tells of its commits.
	commits *notice.Store
	// resolver says what control planes consist of.
	resolver scopes.Resolver
	CAFile   string

	authority *identity.Authority
	tokens    *identity.Tokens
	// people are the tokens of users and zones.
	people *identity.ControlPlaneTokens
	// issuer names users by its tokens; nil if none is trusted.
	issuer *oidc.Issuer
	// meshCert and clientCAs are what files of the settings hold; nil if there are none.
	meshCert  *reread[tls.Certificate]
	clientCAs *reread[clientCAs]
	redis     *redisParts
	revoker   *revoke.Revoker
	gate      *admit.Gate
	oauth     *oauth.Server
	views     *view.Views
	loop      *publish.Loop
	snapshots *snapshot.Store
	// asked makes turns once.
	asked sync.Once
	turns *turns.Queue
	xds   *xds.Server
	mesh  meshParts
	cloud cloudParts
	nodes *nodes.Registry
	dumps *inspect.Dumps
	// AdminToken is what callers of the administration API must show, or empty.
	AdminToken string
	// encryption changes the key of the store; nil if there is none.
	encryption *encryption
	// uses knows which keys the tokens of nodes are of; renewTokens has them replaced.
	uses *identity.Uses
	// roots knows what agents trust; renewWake has gateways looked after at once.
	roots       rootsTold
	renewWake   chan struct{}
	renewTokens *tokenRenewer
	// uploadedWake has the certificates of the administration API looked at.
	uploadedWake chan struct{}
	// ownToken gives the gateway that runs in this process a new token; nil if none does.
	ownToken func() error
	// instance tells this process apart from others.
	instance string
	// ownZone is what is known about the zone of this control plane.
	ownZone *insight.ZoneInsight
	ready   readiness
	clocks  *clocks
	meters  *meters
	// traces is nil where none are made.
	traces *telemetry.Traces
	// backups is nil where none are made.
	backups *backup.Schedule
	closers closers
}

// OpenControlPlane opens everything that can fail; run then serves. Whatever
// goes wrong here leaves nothing behind. It first waits for another control plane if the
// settings say so, and fails with [ErrStoodBy] if ctx ends before that does.
func OpenControlPlane(ctx context.Context, c *config.Config, log *slog.Logger) (*ControlPlane, error) {
	held, err := standBy(ctx, c, log)
	if err != nil {
		return nil, err
	}
	return openControlPlane(ctx, c, log, held)
}

// openControlPlane is [OpenControlPlane] after the wait. It gives back what is held if it fails.
func openControlPlane(ctx context.Context, c *config.Config, log *slog.Logger, held claims) (*ControlPlane, error) {
	garbage := boundGarbage(os.Getenv)
	cp := &ControlPlane{cfg: c, held: held, resolver: cloud.Resolver{}, instance: instanceID(), meters: newMeters(log.Handler()), uses: identity.NewUses(time.Now), renewWake: make(chan struct{}, 1), uploadedWake: make(chan struct{}, 1)}
	cp.closers.add(func(context.Context) { garbage.end(); held.close() })
	cp.Log = slog.New(cp.meters.log)
	cp.ready.conditions = newConditions(cp.Log)
	cp.clocks = newClocks(cp.ready.conditions, steady.New(nil))
	cp.renewTokens = cp.newTokenRenewer()
	cp.ownZone = ownZone(cp.instance, time.Now().UTC())
	steps := []func(context.Context) error{
		cp.openTraces, cp.openAdminToken, cp.openPorts, cp.openStore, cp.openIdentities, cp.openMesh, cp.openRevocation, cp.openRotations, cp.openDeclarative, cp.openXDS, cp.openLifecycle, cp.openPeople, cp.openNodes, cp.openCloud,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			cp.close(ctx)
			return nil, fault.NotBegun(err)
		}
	}
	return cp, nil
}

func (cp *ControlPlane) openPorts(ctx context.Context) (err error) {
	if cp.ports, err = openListeners(ctx, cp.cfg); err == nil {
		cp.closers.add(func(context.Context) { cp.ports.close() })
	}
	return err
}

// openIdentities loads the authority and writes its certificate for others.
func (cp *ControlPlane) openIdentities(ctx context.Context) (err error) {
	if cp.authority, err = identity.OpenAuthority(ctx, cp.store, time.Now); err != nil {
		return err
	}
	if cp.tokens, err = identity.OpenTokens(ctx, cp.store, time.Now); err != nil {
		return err
	}
	cp.tokens.Pinned, cp.tokens.Planes = cloud.Pinned, cloud.Resolver{}
	public, err := cp.publicKeys()
	if err != nil {
		return err
	}
	cp.people = identity.NewControlPlaneTokens(cp.store, time.Now, public...)
	cp.mesh.tokens = identity.NewDataplaneTokens(cp.store, time.Now, public...)
	if err := errors.Join(cp.openMeshTLS(), cp.openIssuer()); err != nil {
		return err
	}
	cp.CAFile = filepath.Join(cp.cfg.StateDir, "ca.pem")
	return cp.writeCA()
}

// ownNames are what a control plane is called on its own machine.
var ownNames = []string{"localhost", "127.0.0.1", "::1"}

// names are what the control plane's certificates are good for: its own names, then those of the settings.
func (cp *ControlPlane) names() []string {
	names := slices.Clone(ownNames)
	for n := range strings.SplitSeq(cp.cfg.DataPlane.Names, ",") {
		if n = strings.TrimSpace(n); n != "" {
			names = append(names, n)
		}
	}
	return names
}

func (cp *ControlPlane) openRevocation(ctx context.Context) (err error) {
	if cp.redis, err = openRedis(cp.cfg, cp.clocks.wall.Earliest, cp.Log); err != nil {
		return err
	}
	cp.closers.add(func(context.Context) { cp.redis.close() })
	cp.views = view.NewResolved(cp.store, cp.resolver, slices.Concat(all.Kinds(), sidecar.LocatingKinds()), cp.Log).InZone(cp.cfg.Zone.Own())
	cp.closers.add(func(context.Context) { cp.views.Close() })
	trusted, err := cp.cfg.Trusted()
	if err != nil {
		return err
	}
	tracing, err := gatewayTracing(cp.cfg)
	if err != nil {
		return err
	}
	log, err := accessLogSettings(&cp.cfg.AccessLog)
	if err != nil {
		return fault.NotBegun(err)
	}
	cp.loop = publish.New(publish.Options{
		Views: cp.views, Publisher: cp.snapshots, Parameters: parameters{cp.store, networks(trusted), cp.cfg.Gateway.ForwardDotSegments, tracing, log}, Identities: identities{cp},
		SidecarLog: log, Policies: all.Policies(), Kinds: AllKinds(), Latest: cp.store.Revision, Issued: cp.mesh.insights.IssuedBackends, Check: cp.cfg.Debug.CheckPlans, Log: cp.Log,
		Planned: cp.meters.streams.Planned, Shown: func(m *view.Mesh) { cp.mesh.addresses.Show(m) },
	})
	cp.revoker, err = revoke.New(ctx, revoke.Options{
		Store: cp.store, Subjects: oauth.Subjects(), Auth: linkAuthenticator{cp}, ControlPlaneOf: controlPlaneOf,
		Source: cp.tokenSource(), Made: cp.tokenSource().Made, Resolver: cp.resolver,
		Allowed: func(n revoke.Node, plugin string) bool {
			if strings.HasPrefix(n.ID, "cp/") {
				return cp.loop.HasPlugin(n.ControlPlane, plugin)
			}
			return cp.snapshots.HasPlugin(n.ID, plugin)
		},
		Planned: cp.planned,
		Redis:   cp.redis.client, Tracker: cp.redis.tracker(), NodeRedis: cp.redis.forNodes,
		RedisState: redisState(cp.ready.conditions), RedisAhead: cp.clocks.redisAhead,
		ChecksTokens: cp.checksTokens, Meter: cp.meters.tokens, Log: cp.Log, Now: cp.clocks.wall.Now, Clock: cp.clocks.wall,
		Refused: func(n revoke.Node, reason string) { cp.mesh.insights.TurnedAway(n.ID, reason, true) },
		Waits:   revocationsWait(cp.ready.conditions),
	})
	if err != nil {
		return err
	}
	cp.ready.conditions.Probe(conditionRevocations, func(context.Context) { cp.revoker.TellWaits() })
	cp.closers.add(func(ctx context.Context) {
		if err := cp.revoker.Close(ctx); err != nil {
			cp.Log.Warn("revocations were still being published at the end", "error", err)
		}
	})
	cp.gate = admit.New(cp.store, cp.revoker, AllKinds(), time.Now)
	cp.gate.Resolve(cp.resolver)
	cp.gate.Accompany(crossings.Follow)
	cp.gate.Accompany(cloud.Note)
	cp.completeDataplanes()
	cp.openTrail()
	cp.mesh.addresses = addresses.New(cp.gate.As(model.System("addresses")), time.Now, cp.Log)
	if cp.encryption != nil {
		cp.encryption.note = func(ctx context.Context, made string, kept []string) error {
			return identity.NoteEncryptionKeys(ctx, cp.store, cp.gate.As(model.System("encryption")), made, kept)
		}
	}
	cp.oauth = oauth.New(oauth.Options{
		Store: cp.store, Resolver: cp.resolver, Writer: cp.gate, Grants: oauth.Grants(),
		Log: cp.Log, Now: time.Now, Observer: cp.meters.tokens,
		Limits: oauth.Limits{Client: cp.cfg.OAuth.FailuresPerClient, Address: cp.cfg.OAuth.FailuresPerAddress},
	})
	return nil
}

// networks lists networks in the form of the plan's parameters: equal for equal
// settings.
func networks(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

func (cp *ControlPlane) openXDS(context.Context) (err error) {
	cp.xds, err = xds.New(xds.Config{
		Snapshots: cp.snapshots, Nodes: xdsNodes{cp.loop}, Auth: adsAuthenticator{cp}, Owner: owner, Secrets: cp.loop,
		Observer: observer{cp.mesh.insights, cp.mesh.rotations, cp.mesh.removals, cp.meters.streams}, Confirmed: cp.loop.Confirmed, Log: cp.Log,
	})
	return err
}

// Run serves until ctx ends or a part fails, then ends everything in order.
func (cp *ControlPlane) Run(ctx context.Context) error {
	defer cp.close(context.WithoutCancel(ctx))
	cp.meters.convergence.Begin(cp.store.Revision())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ended(ctx, "configuration loop", cp.loop.Run(ctx)) })
	g.Go(func() error { return cp.renewCertificates(ctx) })
	g.Go(func() error { return cp.watchCertificates(ctx) })
	g.Go(func() error { return cp.watchUploaded(ctx) })
	g.Go(func() error { return cp.clocks.watch(ctx) })
	g.Go(func() error { watchNodes(ctx, cp.ready.conditions, cp.mesh.insights); return nil })
	g.Go(func() error { return ended(ctx, "events", cp.follow(ctx)) })
	g.Go(func() error { return ended(ctx, "rotation of authorities", cp.mesh.rotations.Run(ctx)) })
	g.Go(func() error { return ended(ctx, "addresses of names", cp.mesh.addresses.Run(ctx)) })
	g.Go(func() error {
		return ended(ctx, "services of the zone", zones.New(cp.views, cp.gate.As(model.System("zones")), cp.Log).Run(ctx))
	})
	g.Go(func() error { return ended(ctx, "renewal of certificates", cp.mesh.renewals.Run(ctx)) })
	g.Go(func() error { return ended(ctx, "removal of dataplanes", cp.mesh.removals.Run(ctx)) })
	g.Go(func() error { return ended(ctx, "measuring convergence", cp.measureConvergence(ctx)) })
	g.Go(func() error { return ended(ctx, "encryption key", cp.encryption.run(ctx)) })
	g.Go(func() error { return ended(ctx, "renewal of tokens", cp.renewTokens.run(ctx)) })
	if cp.backups = cp.backupSchedule(); cp.backups != nil {
		g.Go(func() error { return ended(ctx, "backups", cp.backups.Run(ctx)) })
	}
	grpcLn, httpLn := httpkit.Split(cp.ports.data, cp.authority.DataPlaneConfig(cp.names()), cp.Log)
	g.Go(func() error { return cp.serveADS(ctx, grpcLn) })
	// Whoever reaches the ports of the APIs has a bounded share of their connections, so that
	// an administrator on this machine still gets in.
	users := httpkit.Limits{Bounded: true}
	encrypted := func(ln net.Listener, cert *reread[tls.Certificate]) net.Listener {
		return httpkit.Handshaken(ln, cp.usersTLS(cert), cp.Log)
	}
	var serving sync.WaitGroup
	serveWith := func(l httpkit.Limits, name string, h http.Handler, ln net.Listener) {
		server := httpkit.NewServer(name, cp.traced(name, h), cp.Log, l, cp.meters.requests)
		serving.Add(1)
		g.Go(func() error {
			defer serving.Done()
			return ended(ctx, name, server.Serve(ctx, ln))
		})
	}
	serve := func(name string, h http.Handler, ln net.Listener) { serveWith(httpkit.Limits{}, name, h, ln) }
	serveWith(httpkit.Limits{IdleTimeout: gatewayIdle, Anonymous: true}, "data_plane", cp.dataPlane(), httpLn)
	serve(serverDiagnostics, diagnostics(&cp.ready, cp.metrics(), profiling{on: cp.cfg.Diagnostics.Pprof, token: cp.AdminToken}), cp.ports.diagnostics)
	admin := cp.adminAPI()
	gatewayAPI := httpkit.Administered("gateway", cp.cloud.trail.Refused, admin.Handler())
	serveWith(users, "admin", gatewayAPI, cp.ports.admin)
	serveWith(users, "admin_tls", gatewayAPI, encrypted(cp.ports.adminTLS, nil))
	meshAPI := httpkit.Administered("mesh", cp.cloud.trail.Refused, cp.meshAPI(admin.Revisions))
	serveWith(users, "mesh", meshAPI, cp.ports.mesh)
	serveWith(users, "mesh_tls", meshAPI, encrypted(cp.ports.meshTLS, cp.meshCert))
	cp.serveCloud(func(name string, h http.Handler, ln net.Listener) { serveWith(users, name, h, ln) }, encrypted(cp.ports.cloudTLS, nil))
	g.Go(func() error { return ended(ctx, "delivery of audit logs", cp.cloud.engine.Run(ctx)) })
	g.Go(func() error {
		// Requests that run at the end may still be refused, so it ends after all servers.
		refusing, last := outliving(ctx, serving.Wait)
		defer last()
		return ended(ctx, "audit log of the control plane", cp.cloud.trail.Run(refusing))
	})
	cp.ready.serving.Store(true)
	cp.Log.Info("control plane is up", "data_plane", port(cp.ports.data), "admin", port(cp.ports.admin),
		"mesh", port(cp.ports.mesh), "mesh_tls", port(cp.ports.meshTLS), "cloud", port(cp.ports.cloud), "cloud_tls", port(cp.ports.cloudTLS), "diagnostics", port(cp.ports.diagnostics), "state_dir", cp.cfg.StateDir)
	return g.Wait()
}

// renewCertificates keeps the certificates of connected proxies fresh.
func (cp *ControlPlane) renewCertificates(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	r := &renewer{
		nodes: cp.gateways, generation: cp.generation, secret: cp.loop.Secret, push: cp.xds.PushSecret, log: cp.Log,
		secrets: func(node string) []string { return cp.snapshots.Get(node).Secrets() },
	}
	return r.run(ctx, tick.C, cp.renewWake, cp.successor)
}

// gateways are the connected nodes that are no proxies of a mesh: the identities
// of those are renewed each in its own time.
func (cp *ControlPlane) gateways() []string {
	return slices.DeleteFunc(cp.snapshots.Nodes(), func(n string) bool { return !strings.HasPrefix(n, "cp/") })
}

// meshAPI serves the mesh API.
func (cp *ControlPlane) meshAPI(revisions http.HandlerFunc) http.Handler {
	return meshapi.Handler(cp.meshOptions(revisions))
}

func (cp *ControlPlane) meshOptions(revisions http.HandlerFunc) meshapi.Options {
	host, _ := os.Hostname() // empty where the system does not say
	return meshapi.Options{
		Kinds: slices.Concat(mesh.Kinds(), all.Kinds()), Store: cp.store, Writer: cp.gate,
		Insights: insights{cp}, Census: cp.mesh.census, Directory: cp.mesh.census, Problems: problems{cp}, Dumps: cp.dumps, Policies: cp.chosenPolicies(), Explain: cp.explainedRequests(), DryRun: cp.dryRuns(), DataplaneTokens: cp.mesh.tokens,
		Tokens: cp.tokens, Issued: cp.cloud.trail.Issued, ControlPlaneNamed: cp.planeNamed, ControlPlaneTokens: cp.people, NoIssuing: !cp.cfg.Tokens.Issuing, Identify: cp.callers().Identify, Rules: cp.cfg.Access.Rules(),
		Guard:  httpkit.BrowserGuard{Tokens: true, AnyHost: cp.cfg.Access.IdentityNeeded(), Proxied: cp.cfg.Access.IdentityNeeded(), Origins: cp.cfg.Mesh.Origins()},
		Revoke: cp.revokeTokens, Keys: keyring{cp}, Recorded: changes.Listed(AllKinds()), Revisions: revisions, Conditions: cp.conditions, Nodes: cp.nodes, Version: version.Program, Zone: cp.cfg.Zone.Name,
		Writes: meshapi.Writes{
			ReadOnly: cp.cfg.Mesh.ReadOnly, Native: cp.cfg.Environment == config.EnvironmentKubernetes,
			Global: cp.cfg.Mode == config.ModeGlobal, Zone: cp.cfg.Mode == config.ModeZone,
		},
		Settings:      func() any { return cp.settings() },
		About:         meshapi.About{Product: cp.cfg.Mesh.Product, ClusterID: cp.authority.ID(), Hostname: host, InstanceID: cp.instance},
		ProxyVersions: map[string]string{version.Program: version.Envoy},
	}
}

// settings returns the configuration in force, with the ports that were given to this process
// where it asked for any.
func (cp *ControlPlane) settings() map[string]any {
	c := *cp.cfg
	c.DataPlane.Port, c.Diagnostics.Port = port(cp.ports.data), port(cp.ports.diagnostics)
	c.Mesh.Port, c.Mesh.TLSPort = port(cp.ports.mesh), port(cp.ports.meshTLS)
	c.Admin.Port, c.Admin.TLSPort = port(cp.ports.admin), port(cp.ports.adminTLS)
	c.Cloud.Port, c.Cloud.TLSPort = port(cp.ports.cloud), port(cp.ports.cloudTLS)
	return c.Effective()
}

// dataPlane serves the HTTP half of the data-plane server.
func (cp *ControlPlane) dataPlane() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, h http.Handler) { mux.Handle(pattern, httpkit.Named(pattern, h)) }
	handle(contract.LinkPath, cp.revoker)
	handle(contract.EndedPath, http.HandlerFunc(cp.revoker.ServeEnded))
	handle(adminlink.Path, cp.mesh.admin)
	joining := &enrol.Server{Store: cp.store, Writer: cp.gate, Tokens: cp.tokens, Enrolled: cp.enrolled, Mesh: cp.proxies(), Refused: cp.mesh.insights.TurnedAway, Connected: cp.connected, Plane: cp.planeNamed, Remembers: cp.revoker.Remembers,
		Trusting: cp.trusting()}
	handle(enrol.Path, joining)
	handle(probing.Path, &presence.Server{Tokens: cp.mesh.tokens, Store: cp.store, Documents: cp.gate, Log: cp.Log})
	handle(enrol.RenewPath, http.HandlerFunc(joining.Renew))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		httpkit.EntryOf(r.Context()).Pattern = oauth.Route(r.URL)
		cp.oauth.ServeHTTP(w, r)
	})
	return mux
}

// serveADS serves the gRPC half of the data-plane server.
func (cp *ControlPlane) serveADS(ctx context.Context, ln net.Listener) error {
	s := grpc.NewServer(adsOptions()...)
	cp.xds.Register(s)
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve ADS: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := cp.xds.Close(closing)
	s.Stop()
	if ended := <-failed; !errors.Is(ended, grpc.ErrServerStopped) { // it was stopped before it began
		err = errors.Join(err, ended)
	}
	return err
}

// adsOptions are those of the gRPC half.
func adsOptions() []grpc.ServerOption { return append(xds.Options(), grpc.Creds(handshaken{})) }

// instanceID tells this process apart from others, of this host and before.
func instanceID() string {
	host, _ := os.Hostname() // empty where the system does not say
	return host + "-" + uuid.NewString()[:4]
}

// close ends what open has opened, in reverse order. It is safe to call twice.
func (cp *ControlPlane) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	cp.ready.serving.Store(false)
	cp.closers.run(ctx)
}

// ended hides the error that a part returns because it was told to end.
func ended(ctx context.Context, name string, err error) error {
	if err == nil || (ctx.Err() != nil && errors.Is(err, ctx.Err())) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// outliving returns a context that ends once ctx has ended and over has returned.
func outliving(ctx context.Context, over func()) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		over()
		cancel()
	})
	return longer, cancel
}

// WaitReady returns when everything is up, the gateway included.
func (cp *ControlPlane) WaitReady(ctx context.Context) error {
	for {
		moved := cp.snapshots.Moved()
		missing, _ := cp.ready.state(ctx)
		if missing == "" {
			return nil
		}
		select {
		case <-moved:
		case <-time.After(readyTick):
		case <-ctx.Done():
			return errors.New(missing)
		}
	}
}

// readyTick is how often an Envoy that has its configuration is asked whether
// its port is open. It has no event for that.
const readyTick = 50 * time.Millisecond
