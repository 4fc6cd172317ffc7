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
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/accesslogs"
	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/prober"
	"github.com/meshgate/meshgate/controlplane/scrape"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/relay"
)

// Options configure an agent.
type Options struct {
	// StateDir holds the run directory.
	StateDir string
	// ControlPlane and Name say which gateway instance this is.
	ControlPlane, Name string
	// Named is what the control plane was called on the command line: its name or its id. Empty means
	// ControlPlane.
	Named string
	// Sidecar makes the agent run the proxy of a Dataplane called Name. If it is nil, the
	// agent runs an oauth-gateway.
	Sidecar *Sidecar
	// Address is the https:// base URL of the data-plane server.
	Address string
	// CAFile is a PEM bundle. The certificate of the data-plane server must be signed by
	// one of its authorities.
	CAFile string
	// TokenFile holds the node token. It is read again for every connection.
	TokenFile string
	// Certificate, unless nil, is what a gateway has instead of a token file.
	Certificate *ClientCertificate
	// Instance says what the gateway listens on. The agent fills in the rest.
	Instance gateway.Instance
	// Filter says how the proxy has the filter.
	Filter contract.Mode
	// Authz is the authorization service that the agent runs, nil if it runs none. Otherwise
	// AuthzAddress is the path of the socket of one that Envoy asks.
	Authz        Authz
	AuthzAddress string
	// EnvoyPath is the binary of Envoy, ModuleDir the directory of the filter's library.
	EnvoyPath, ModuleDir string
	// Versions are the versions that run, for the control plane's overview.
	Versions    Versions
	Concurrency int
	LogLevel    string
	// AdminPort, unless 0, opens Envoy's admin interface on that loopback port instead of a
	// Unix socket in the run directory.
	AdminPort int
	// StatusAddress is the address of /ready, /live and /metrics. If it is empty, they are
	// not served.
	StatusAddress string
	// WorkloadAddresses are the addresses beyond this machine where workloads of a sidecar
	// may be. They also are the link-local addresses that configuration of any proxy may
	// lead to.
	WorkloadAddresses []netip.Prefix
	// ExternalNames are the names that an egress may lead to. Others lead to none.
	ExternalNames []hostname.Suffix
	// SystemCAFile is the PEM bundle of this machine's public authorities; if it is empty, the
	// agent looks for it.
	SystemCAFile string
	// DNS, unless nil, makes the agent of a sidecar answer for the host names of the mesh.
	DNS *DNS
	// Metrics serves the metrics of the node. It may be nil.
	Metrics http.Handler
	Drain   Drain
	// Abort, when closed, kills Envoy instead of draining it. It may be nil.
	Abort <-chan struct{}
	Cache contract.CacheSettings
	// AccessLog says where the access log goes. If it has no path, the access log goes to
	// Access, which is this process's standard output.
	AccessLog AccessLog
	Access    io.Writer
	// LogDirectories are absolute paths of directories below which a sidecar's access logs may be.
	// If there are none, it is a directory in the run directory. The files are rotated as
	// AccessLog says.
	LogDirectories []string
	Log            *slog.Logger
}

// Authz is an authorization service.
type Authz interface {
	// Open listens on an address and opens the token cache by a file of settings. process is
	// the name by which the control plane hears of its end.
	Open(ctx context.Context, listen, settings, process string) error
	// Serve answers until ctx ends.
	Serve(ctx context.Context) error
}

// Versions are the versions of the agent, of Envoy and of the filter's library. A version
// is empty if it is not known.
type Versions struct{ Agent, Envoy, Module string }

// Agent runs one Envoy.
type Agent struct {
	Options
	dir   *runDir
	trust *trust
	tls   *tls.Config
	host  string
	// password is what Envoy shows to the relay.
	password string
	// trusting are the ports of this machine that must be lent to nobody, nil before anybody knows.
	trusting atomic.Pointer[[]uint16]
	// instance distinguishes this agent from others with the same name.
	instance string
	// running says that this agent has enrolled. A proxy that is connected with this name
	// is then its own.
	running bool
	// settled says that the control plane of a gateway with a client certificate is known.
	settled bool
	// certifying is held while a new token is got by a client certificate and stored.
	certifying sync.Mutex
	ready      chan struct{}
	// lost is the time since when the control plane cannot be reached, nil while it can.
	// looked is the time of the last check of tokens.
	lost   atomic.Pointer[time.Time]
	looked atomic.Pointer[time.Time]
	// unrenewed is the reason why the node token could not be renewed, nil if it was.
	unrenewed atomic.Pointer[string]
	// asks replaces askTime in tests, where whoever is asked may be slow and answers.
	asks time.Duration
	// reached says that the control plane has answered this agent at least once.
	reached atomic.Bool
	Envoy   *Process
	// link carries the questions of the control plane. renewNow has one entry when the
	// control plane wants the token renewed.
	link     *adminlink.Client
	renewNow chan struct{}
	// processes are the Envoys of this run directory.
	processes *processes
	// state is the status of a running agent, nil before Run.
	state atomic.Pointer[status]
	// conditions are the problems of the proxy. transport knows why the relay's last
	// connection could not be made.
	conditions *health.Board
	transport  transport
	// statusPort is the port of the status server, 0 if there is none.
	statusPort uint16
	// held are the certificates that Envoy is served.
	held *held
	// names answers questions of DNS.
	names nameServer
	// lines receives the access logs of a sidecar; it is nil for other proxies. lineTrouble has an
	// entry when its trouble may have changed.
	lines       *accesslogs.Receiver
	lineTrouble chan struct{}
	// page is what a sidecar shows of its metrics; it is nil for other proxies.
	page *scrape.Page
	// prober checks the workloads of a sidecar; it is nil for other proxies. probed is closed when
	// probe has ended.
	prober *prober.Prober
	probed chan struct{}
	// relay is set once the relay exists.
	relay atomic.Pointer[relay.Relay]
}

// New checks the options before anything is started, and creates the run directory.
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
	if o.Certificate == nil {
		if _, err := os.ReadFile(o.TokenFile); err != nil {
			return nil, fmt.Errorf("the node token: %w", err)
		}
	}
	if o.Sidecar != nil {
		if err := o.Sidecar.check(o.Name); err != nil {
			return nil, err
		}
	}
	if err := o.AccessLog.prepare(); err != nil {
		return nil, err
	}
	a := &Agent{Options: o, names: noNames{}, conditions: newConditions(o.Log), held: newHeld(), host: u.Host, instance: uuid.NewString(), ready: make(chan struct{}), renewNow: make(chan struct{}, 1)}
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
		// The trusted authorities may change while the agent runs, so VerifyConnection
		// looks them up for each connection. No check is skipped.
		InsecureSkipVerify: true, VerifyConnection: a.trust.verifyConnection, //nolint:gosec // see above
	}
	if err := dir.noteAdmin(o.AdminPort); err != nil {
		return nil, err
	}
	if err := dir.noteMode(o.Filter); err != nil {
		return nil, err
	}
	if a.processes, err = openProcesses(dir.processes); err != nil {
		return nil, err
	}
	if a.password, err = dir.relayPassword(); err != nil {
		return nil, err
	}
	a.dir = dir
	if err := a.useCertificate(); err != nil {
		return nil, err
	}
	a.newLines()
	a.Envoy = &Process{
		Path: o.EnvoyPath, Bootstrap: dir.bootstrap, ModuleDir: o.ModuleDir, Settings: dir.settings, PIDFile: dir.pid, Processes: a.processes,
		Concurrency: o.Concurrency, LogLevel: o.LogLevel, Access: o.Access, Drain: o.Drain, Replaced: a.proxy().replaced(), Abort: o.Abort, Admin: dir.adminClient(), Log: o.Log,
		Withdraw: a.withdraw, Empty: o.Filter == contract.ModeExtAuthz, Passing: o.Sidecar != nil && o.Sidecar.ZoneType != "",
	}
	a.newPage()
	a.newProber()
	a.link = &adminlink.Client{Address: a.host, TLS: a.tls, Node: a.NodeID(), Token: a.token, Fetch: a.fetch, Trust: a.trust.learn, Report: a.tells, Log: a.Log}
	return a, nil
}

func (a *Agent) token() (string, error) {
	return readToken(a.TokenFile)
}

// Ready is closed once Envoy serves for the first time with every listener.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run enrols the node, then runs the relay and Envoy until ctx ends. A node that has run
// before starts even if the control plane is away.
func (a *Agent) Run(ctx context.Context) error {
	configured := make(chan struct{})
	state := &status{conditions: a.conditions, envoy: a.Envoy, admin: a.Envoy.Admin, leaving: ctx, configured: configured, metrics: a.Metrics, blind: a.blind}
	a.state.Store(state)
	stopStatus, err := a.serveStatus(state)
	if err != nil {
		return err
	}
	defer stopStatus()
	// The port is opened before anything is registered, so that a clash is told at once.
	if a.names, err = a.openDNS(); err != nil {
		return err
	}
	defer a.names.Close()
	// Questions are answered from the start: enrolling may ask one.
	answering, stopNames := context.WithCancel(context.WithoutCancel(ctx))
	named, stopped := make(chan error, 1), make(chan struct{})
	go func() { defer close(stopped); named <- a.names.Serve(answering) }()
	defer func() { stopNames(); <-stopped }()
	enrolled, err := a.enrolFirst(ctx)
	switch {
	case err != nil && enrolled:
		a.leave() // the registration must not stay behind
		return err
	case err != nil:
		a.tellGone()
		return err
	}
	a.running = true
	// Envoy drains after ctx has ended and needs the relay until it has drained.
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
	serve, err := a.openAuthz(ctx)
	if err != nil {
		return err
	}
	receive, err := a.openLines(ctx)
	if err != nil {
		return err
	}
	show, err := a.openPage(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(relayCtx) })
	g.Go(func() error { return show(relayCtx) })
	g.Go(func() error { return receive(relayCtx) })
	g.Go(func() error {
		select {
		case err := <-named:
			return err
		case <-relayCtx.Done():
			return nil
		}
	})
	g.Go(func() error { a.probe(ctx); return nil })
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
	// Envoy still writes its access log while it drains.
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

// runEnvoy runs Envoy and what depends on it. It closes configured when there is a
// configuration to serve.
func (a *Agent) runEnvoy(ctx, relayCtx context.Context, stream *relay.Relay, configured chan<- struct{}) error {
	// An Envoy that starts before there is a configuration would open no port until its
	// fetch timeout is over.
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

// lacks logs why a proxy whose Envoy serves is not ready.
func (a *Agent) lacks(refused map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		a.Log.Warn("proxy is not ready: envoy refused a listener", "node", a.NodeID(), "listener", name, "error", refused[name])
	}
}

// newRelay makes the relay between Envoy and the control plane. Once leaving has ended, the
// agent drains and must not register again, because another agent may have taken its place.
func (a *Agent) newRelay(leaving context.Context) (*relay.Relay, error) {
	return a.newRelayTo(leaving, a.report)
}

// newRelayTo does what newRelay does, but passes the state of the connection to report.
func (a *Agent) newRelayTo(leaving context.Context, report func(error)) (*relay.Relay, error) {
	about, err := structpb.NewStruct(map[string]any{"version": a.versions()})
	if err != nil {
		return nil, fmt.Errorf("metadata of the node: %w", err)
	}
	return relay.New(relay.Config{
		Node: a.NodeID(), Password: a.password, Socket: a.dir.relay, Cache: a.dir.cache,
		Dial: func(context.Context) (*grpc.ClientConn, error) {
			o := append(relay.DialOptions(), grpc.WithContextDialer(a.transport.dial), grpc.WithTransportCredentials(noted{credentials.NewTLS(a.tls.Clone()), &a.transport}))
			return grpc.NewClient("passthrough:///"+a.host, o...)
		},
		Machine: a.machine(), Token: a.token, Metadata: about, Log: a.Log, Report: report, Saved: a.saved, Secrets: a.held.set, Names: a.names.Set, Sinks: a.sinks, Metrics: a.showing, Probes: a.probes,
		Unknown: func(ctx context.Context) {
			if leaving.Err() == nil {
				a.registerAgain(ctx)
			}
		},
	})
}

// systemRoots returns this machine's bundle of public authorities, by which Envoy verifies
// upstream servers; empty if there is none.
func (a *Agent) systemRoots() string {
	if a.SystemCAFile != "" {
		return a.SystemCAFile
	}
	for _, f := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}

// NodeID returns the node id of the agent's Envoy.
func (a *Agent) NodeID() string { return a.proxy().node() }

// Connected reports whether the configuration stream to the control plane is open.
func (a *Agent) Connected() bool {
	r := a.relay.Load()
	return r != nil && r.Status().Connected
}

// TokenEnds returns when the node token expires according to its exp claim. It is zero if
// the token has none.
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
