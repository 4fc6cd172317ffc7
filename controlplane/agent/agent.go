package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/relay"
)

// Options of an agent.
type Options struct {
	// StateDir holds the run directory.
	StateDir string
	// ControlPlane and Name say which gateway instance this is.
	ControlPlane, Name string
	// Sidecar makes it the proxy of a Dataplane called Name; nil means an
	// oauth-gateway.
	Sidecar *Sidecar
	// Address is the https:// base URL of the data-plane server.
	Address string
	// CAFile is the PEM bundle its certificate is pinned to.
	CAFile string
	// TokenFile holds the node token; it is read again for every connection.
	TokenFile string
	// Instance is what the gateway listens on; the rest is filled in.
	Instance gateway.Instance
	// EnvoyPath and ModuleDir say what runs.
	EnvoyPath, ModuleDir string
	// Versions are what runs, for the control plane's overview.
	Versions    Versions
	Concurrency int
	LogLevel    string
	// AdminPort opens Envoy's admin interface on that loopback port instead of
	// a Unix socket in the run directory.
	AdminPort int
	// StatusAddress is where /ready, /live and /metrics are served; empty: nowhere.
	StatusAddress string
	// WorkloadAddresses are where workloads of a sidecar may be beside this machine, and
	// which link-local addresses any proxy may lead to.
	WorkloadAddresses []netip.Prefix
	// Metrics serves the metrics of the node; may be nil.
	Metrics http.Handler
	Drain   Drain
	// Abort, when closed, kills Envoy instead of draining it; may be nil.
	Abort <-chan struct{}
	Cache contract.CacheSettings
	// AccessLog is where the access log goes, and Access is our standard output, for
	// one without a path.
	AccessLog AccessLog
	Access    io.Writer
	Log       *slog.Logger
}

// Versions are those of the agent, of Envoy and of the filter's library; empty where
// they are not known.
type Versions struct{ Agent, Envoy, Module string }

// Agent runs one Envoy.
type Agent struct {
	Options
	dir   *runDir
	trust *trust
	tls   *tls.Config
	host  string
	// instance tells this agent from others of the same name.
	instance string
	// running says that this agent has begun: who is connected by its name is itself.
	running bool
	ready   chan struct{}
	// lost is since when the control plane cannot be reached, nil while it can; looked is
	// when tokens were looked after last.
	lost   atomic.Pointer[time.Time]
	looked atomic.Pointer[time.Time]
	// unrenewed is why the node token could not be renewed, nil if it was.
	unrenewed atomic.Pointer[string]
	// reached says that the control plane answered this agent once.
	reached atomic.Bool
	Envoy   *Process
	// link is how the control plane asks questions, and renewNow has one entry when it
	// wants the token renewed.
	link     *adminlink.Client
	renewNow chan struct{}
	// processes are the Envoys of this run directory.
	processes *processes
	// state is what Run has come to, nil before it.
	state atomic.Pointer[status]
	// conditions are what is the matter; transport knows why the relay's last
	// connection could not be made.
	conditions *health.Board
	transport  transport
	// statusPort is where the status is served, 0 for nowhere.
	statusPort uint16
	// held are the certificates that Envoy is served.
	held *held
	// relay is set once there is one.
	relay atomic.Pointer[relay.Relay]
}

// New checks what can be checked before anything is started, and makes the run
// directory.
func New(o Options) (*Agent, error) {
	u, err := url.Parse(o.Address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" {
		return nil, fmt.Errorf("the control plane's address %q is not https://host:port", o.Address)
	}
	pem, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("the control plane's CA: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the control plane's CA: %s holds no certificate", o.CAFile)
	}
	if _, err := os.ReadFile(o.TokenFile); err != nil {
		return nil, fmt.Errorf("the node token: %w", err)
	}
	if o.Sidecar != nil {
		if err := CheckSidecar(o.Sidecar.Mesh, o.Name); err != nil {
			return nil, err
		}
	}
	if err := o.AccessLog.prepare(); err != nil {
		return nil, err
	}
	a := &Agent{Options: o, conditions: newConditions(o.Log), held: newHeld(), host: u.Host, instance: uuid.NewString(), ready: make(chan struct{}), renewNow: make(chan struct{}, 1)}
	dir, err := runDirOf(o.StateDir, a.proxy().dir())
	if err != nil {
		return nil, err
	}
	if err := dir.make(); err != nil {
		return nil, err
	}
	a.trust = &trust{given: o.CAFile, learned: dir.roots, host: u.Hostname(), changed: a.held.ring}
	if err := a.trust.open(); err != nil {
		return nil, err
	}
	a.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: u.Hostname(),
		// What is trusted changes while the agent runs, so it is looked up for each
		// connection; nothing is skipped.
		InsecureSkipVerify: true, VerifyConnection: a.trust.verifyConnection, //nolint:gosec // see above
	}
	if err := dir.noteAdmin(o.AdminPort); err != nil {
		return nil, err
	}
	if a.processes, err = openProcesses(dir.processes); err != nil {
		return nil, err
	}
	a.dir = dir
	a.Envoy = &Process{
		Path: o.EnvoyPath, Bootstrap: dir.bootstrap, ModuleDir: o.ModuleDir, Settings: dir.settings, PIDFile: dir.pid, Processes: a.processes,
		Concurrency: o.Concurrency, LogLevel: o.LogLevel, Access: o.Access, Drain: o.Drain, Replaced: a.proxy().replaced(), Abort: o.Abort, Admin: dir.adminClient(), Log: o.Log,
		Withdraw: a.withdraw,
	}
	a.link = &adminlink.Client{Address: a.host, TLS: a.tls, Node: a.NodeID(), Token: a.token, Fetch: a.fetch, Trust: a.trust.learn, Report: a.tells, Log: a.Log}
	return a, nil
}

func (a *Agent) token() (string, error) {
	return readToken(a.TokenFile)
}

// Ready is closed once Envoy serves for the first time, with every listener.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run enrols, then runs relay and Envoy until ctx ends. A control plane that is
// away does not hinder the start of a node that has run before.
func (a *Agent) Run(ctx context.Context) error {
	configured := make(chan struct{})
	state := &status{conditions: a.conditions, envoy: a.Envoy, admin: a.Envoy.Admin, leaving: ctx, configured: configured, metrics: a.Metrics, blind: a.blind}
	a.state.Store(state)
	stopStatus, err := a.serveStatus(state)
	if err != nil {
		return err
	}
	defer stopStatus()
	enrolled, err := a.enrolFirst(ctx)
	switch {
	case err != nil && enrolled:
		a.leave() // what was registered must not stay there
		return err
	case err != nil:
		a.tellGone()
		return err
	}
	a.running = true
	// Envoy drains after ctx has ended and still needs the relay for that.
	relayCtx, stopRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRelay()
	stream, err := a.newRelay(ctx)
	if err != nil {
		return err
	}
	state.refused = stream.Refused
	state.enrolled.Store(true)
	a.conditions.Probe(conditionDisk, func(context.Context) { stream.SaveAgain() })
	a.conditions.Watch(conditionTokenChecks, tokensEvery, a.judgeTokenChecks)
	a.relay.Store(stream)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { a.watchCertificates(ctx); return nil })
	g.Go(func() error { a.watchToken(ctx); return nil })
	g.Go(func() error {
		if err := stream.Run(relayCtx); err != nil && relayCtx.Err() == nil {
			return fmt.Errorf("relay: %w", err)
		}
		return nil
	})
	g.Go(func() error { a.tellEnded(relayCtx); return nil })
	g.Go(func() error {
		defer stopRelay()
		return a.runEnvoy(ctx, relayCtx, stream, configured)
	})
	g.Go(func() error { a.renewal().run(ctx); return nil })
	// While Envoy drains it still writes.
	g.Go(func() error {
		(&rotation{AccessLog: a.AccessLog, admin: a.Envoy.Admin, log: a.Log}).run(relayCtx)
		return nil
	})
	if !enrolled {
		if why := a.blind(ctx); why != "" {
			a.Log.Warn("proxy is not ready: "+why, "node", a.NodeID())
		}
		g.Go(func() error { a.enrolLater(ctx); return nil })
	}
	err = g.Wait()
	a.leave()
	return err
}

// runEnvoy runs Envoy and what depends on it. It closes configured when there is
// something to serve.
func (a *Agent) runEnvoy(ctx, relayCtx context.Context, stream *relay.Relay, configured chan<- struct{}) error {
	// An Envoy that starts before there is something to serve would open no port
	// for the whole of its fetch timeout.
	select {
	case <-stream.Ready():
		close(configured)
	case <-ctx.Done():
		return nil
	}
	watching, stop := context.WithCancel(relayCtx)
	var g errgroup.Group
	g.Go(func() error {
		if a.Envoy.Admin.WaitReady(watching) == nil && stream.Whole(watching, a.lacks) == nil {
			a.Log.Info("proxy is ready", "node", a.NodeID())
			close(a.ready)
		}
		return nil
	})
	g.Go(func() error { a.link.Run(watching); return nil })
	err := a.Envoy.Run(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

// lacks says why a proxy whose Envoy serves is not ready.
func (a *Agent) lacks(refused map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		a.Log.Warn("proxy is not ready: envoy refused a listener", "node", a.NodeID(), "listener", name, "error", refused[name])
	}
}

// newRelay makes the relay between Envoy and the control plane. Once leaving has
// ended, the agent drains and must not register again: its place may be taken.
func (a *Agent) newRelay(leaving context.Context) (*relay.Relay, error) {
	return a.newRelayTo(leaving, a.report)
}

// newRelayTo is newRelay with somebody else who hears how the control plane is reached.
func (a *Agent) newRelayTo(leaving context.Context, report func(error)) (*relay.Relay, error) {
	about, err := structpb.NewStruct(map[string]any{"version": a.versions()})
	if err != nil {
		return nil, fmt.Errorf("metadata of the node: %w", err)
	}
	return relay.New(relay.Config{
		Node: a.NodeID(), Socket: a.dir.relay, Cache: a.dir.cache,
		Dial: func(context.Context) (*grpc.ClientConn, error) {
			o := append(relay.DialOptions(), grpc.WithContextDialer(a.transport.dial), grpc.WithTransportCredentials(noted{credentials.NewTLS(a.tls.Clone()), &a.transport}))
			return grpc.NewClient("passthrough:///"+a.host, o...)
		},
		Machine: a.machine(), Token: a.token, Metadata: about, Log: a.Log, Report: report, Saved: a.saved, Secrets: a.held.set,
		Unknown: func(ctx context.Context) {
			if leaving.Err() == nil {
				a.registerAgain(ctx)
			}
		},
	})
}

// systemRoots finds this machine's bundle of public authorities, against which
// Envoy checks upstream servers.
func systemRoots() string {
	for _, f := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}

// NodeID is the node id of the agent's Envoy.
func (a *Agent) NodeID() string { return a.proxy().node() }

// Connected reports whether the stream of configuration to the control plane is open.
func (a *Agent) Connected() bool {
	r := a.relay.Load()
	return r != nil && r.Status().Connected
}

// TokenEnds is when the node token ends by its own word; zero if it does not say.
func (a *Agent) TokenEnds() time.Time {
	token, err := a.token()
	if err != nil {
		return time.Time{}
	}
	c, err := lifeOf(token)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}
