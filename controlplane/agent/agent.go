package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/relay"
)

// Options of an agent.
type Options struct {
	// StateDir holds the run directory.
	StateDir string
	// ControlPlane and Name say which gateway instance this is.
	ControlPlane, Name string
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
	Concurrency          int
	LogLevel             string
	// AdminPort opens Envoy's admin interface on that loopback port instead of
	// a Unix socket in the run directory.
	AdminPort    int
	DrainTimeout time.Duration
	// Abort, when closed, kills Envoy instead of draining it; may be nil.
	Abort <-chan struct{}
	Cache contract.CacheSettings
	Log   *slog.Logger
}

// Back-off of enrolments while the control plane cannot be reached.
const (
	enrolFirst = 100 * time.Millisecond
	enrolMax   = 2 * time.Second
)

// Agent runs one Envoy.
type Agent struct {
	Options
	dir   *runDir
	tls   *tls.Config
	host  string
	Envoy *Process
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
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the control plane's CA: %s holds no certificate", o.CAFile)
	}
	if _, err := os.ReadFile(o.TokenFile); err != nil {
		return nil, fmt.Errorf("the node token: %w", err)
	}
	dir, err := runDirOf(o.StateDir, o.Name)
	if err != nil {
		return nil, err
	}
	if err := dir.make(); err != nil {
		return nil, err
	}
	if err := dir.noteAdmin(o.AdminPort); err != nil {
		return nil, err
	}
	a := &Agent{Options: o, dir: dir, host: u.Host, tls: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}}
	a.Envoy = &Process{
		Path: o.EnvoyPath, Bootstrap: dir.bootstrap, ModuleDir: o.ModuleDir, Settings: dir.settings, PIDFile: dir.pid,
		Concurrency: o.Concurrency, LogLevel: o.LogLevel, DrainTimeout: o.DrainTimeout, Abort: o.Abort, Admin: dir.adminClient(), Log: o.Log,
	}
	return a, nil
}

func (a *Agent) token() (string, error) {
	b, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return "", fmt.Errorf("node token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Run enrols, then runs relay and Envoy until ctx ends. A control plane that is
// away does not hinder the start of a node that has run before.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.enrolFirst(ctx); err != nil {
		return err
	}
	// Envoy drains after ctx has ended and still needs the relay for that.
	relayCtx, stopRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRelay()
	stream, err := a.newRelay()
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error {
		if err := stream.Run(relayCtx); err != nil && relayCtx.Err() == nil {
			return fmt.Errorf("relay: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopRelay()
		// An Envoy that starts before there is something to serve would open no
		// port for the whole of its fetch timeout.
		select {
		case <-stream.Ready():
			return a.Envoy.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return g.Wait()
}

// newRelay makes the relay between Envoy and the control plane.
func (a *Agent) newRelay() (*relay.Relay, error) {
	return relay.New(relay.Config{
		Node: gatewayNode(a.ControlPlane, a.Name), Socket: a.dir.relay, Cache: a.dir.cache,
		Dial: func(context.Context) (*grpc.ClientConn, error) {
			o := append(relay.DialOptions(), grpc.WithTransportCredentials(credentials.NewTLS(a.tls.Clone())))
			return grpc.NewClient("passthrough:///"+a.host, o...)
		},
		Token: a.token, Log: a.Log,
	})
}

// gatewayNode is the node id of a gateway instance.
func gatewayNode(controlPlane, name string) string { return "cp/" + controlPlane + "/" + name }

// enrolFirst enrols before the first start. A node that has settings from an
// earlier run starts with those when the control plane is away.
func (a *Agent) enrolFirst(ctx context.Context) error {
	pause := enrolFirst
	for told := false; ; told = true {
		answer, err := a.enrol(ctx)
		if err == nil {
			return a.dir.write(a, answer)
		}
		if _, refused := errors.AsType[*enrol.Refused](err); refused {
			return err
		}
		if a.dir.enrolled() {
			a.Log.Warn("the control plane cannot be reached; starting with what it said last", "error", err)
			return nil
		}
		if !told {
			a.Log.Warn("waiting for the control plane", "address", a.Address, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*2, enrolMax)
	}
}

// enrol asks the control plane once.
func (a *Agent) enrol(ctx context.Context) (*enrol.Answer, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: a.tls.Clone(), DisableKeepAlives: true}
	client := &http.Client{Timeout: 10 * time.Second, Transport: transport}
	self := a.Instance
	self.ControlPlane, self.RootsFile = a.host, systemRoots()
	answer, err := enrol.Enrol(ctx, client, a.Address, token, self)
	if err != nil {
		return nil, err
	}
	if want := gatewayNode(a.ControlPlane, a.Name); answer.Node != want {
		return nil, &enrol.Refused{Status: http.StatusForbidden, Text: fmt.Sprintf("the node token is for %s, not for %s", answer.Node, want)}
	}
	return answer, nil
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
func (a *Agent) NodeID() string { return gatewayNode(a.ControlPlane, a.Name) }
