package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Standalone is a control plane with one gateway.
type Standalone struct {
	ControlPlane *ControlPlane
	Agent        *agent.Agent
	EnvoyVersion string // version of Envoy
}

// OpenStandalone opens everything that can fail before anything runs. Closing abort ends all
// waiting; abort may be nil.
func OpenStandalone(ctx context.Context, c *config.Config, abort <-chan struct{}) (*Standalone, error) {
	envoy, versionLine, err := FindEnvoy(c.Envoy.Path)
	if err != nil {
		return nil, err
	}
	filter, err := FindFilter(ctx, c, envoy)
	if err != nil {
		return nil, err
	}
	log := c.Log.Logger()
	held, err := standBy(ctx, c, log)
	if err != nil {
		return nil, err
	}
	if err := freePorts(ctx, c, log); err != nil {
		held.close()
		return nil, err
	}
	cp, err := openControlPlane(ctx, c, log, held)
	if err != nil {
		return nil, err
	}
	a, err := newOwnAgent(c, cp, abort, envoy, filter, versionLine)
	if err != nil {
		cp.close(ctx)
		return nil, fault.NotBegun(err)
	}
	own := &ownGateway{node: a.NodeID(), instance: Instance(c), snapshots: cp.snapshots}
	cp.ready.checks = append(cp.ready.checks, func() string {
		// An open port alone proves nothing. The kernel keeps the port of an Envoy that hangs
		// open, and if Envoy could not open the port, another process may have it.
		if m := a.Missing(ctx); m != "" {
			return "gateway: " + m
		}
		return own.missing()
	})
	return &Standalone{ControlPlane: cp, Agent: a, EnvoyVersion: versionLine}, nil
}

// freePorts makes sure that the gateway and its agent will get their ports.
func freePorts(ctx context.Context, c *config.Config, log *slog.Logger) error {
	if err := FreeGatewayPorts(ctx, c, c.Gateway.Name, log); err != nil {
		return err
	}
	return FreeStatusPort(c)
}

// FreeGatewayPorts ends a predecessor of the gateway, and makes sure that Envoy will get its
// ports.
func FreeGatewayPorts(ctx context.Context, c *config.Config, name string, log *slog.Logger) error {
	if err := agent.EndPredecessor(ctx, c.StateDir, name, c.Drain.Timeout, log); err != nil {
		return fault.NotBegun(err)
	}
	if err := checkFree("gateway.httpPort", c.Gateway.Listen, c.Gateway.HTTPPort); err != nil {
		return err
	}
	return checkFree("gateway.httpsPort", c.Gateway.Listen, c.Gateway.HTTPSPort)
}

// newOwnAgent makes the agent of the gateway that runs beside its control plane. Its first
// token is made here; the agent renews it.
func newOwnAgent(c *config.Config, cp *ControlPlane, abort <-chan struct{}, envoy string, filter Filter, versionLine string) (*agent.Agent, error) {
	file := filepath.Join(c.StateDir, c.Gateway.Name+".token")
	cp.ownToken = func() error {
		token, err := cp.tokens.Gateway(model.DefaultControlPlane, c.Gateway.Name, identity.GatewayTokenLife)
		if err != nil {
			return err
		}
		return os.WriteFile(file, []byte(token), 0o600)
	}
	if err := cp.ownToken(); err != nil {
		return nil, err
	}
	accessLog, err := AccessLogFile(&c.AccessLog)
	if err != nil {
		return nil, err
	}
	workloads, err := c.Workload.Networks()
	if err != nil {
		return nil, err
	}
	o := agent.Options{
		WorkloadAddresses: workloads,
		AccessLog:         accessLog, Access: os.Stdout,
		StateDir: c.StateDir, ControlPlane: model.DefaultControlPlane, Name: c.Gateway.Name,
		Address: fmt.Sprintf("https://127.0.0.1:%d", port(cp.ports.data)), CAFile: cp.CAFile, TokenFile: file,
		Instance: Instance(c), EnvoyPath: envoy,
		Concurrency: c.Envoy.Concurrency, LogLevel: c.Envoy.LogLevel, Drain: agent.Drain(c.Drain), StatusAddress: StatusAddress(c),
		Abort: abort, Cache: CacheSettings(c), Log: cp.Log,
	}
	filter.Into(&o, versionLine)
	a, err := agent.New(o)
	if err != nil {
		return nil, err
	}
	return MeterNode(a), nil
}

// FreeStatusPort makes sure that the agent will get its status port.
func FreeStatusPort(c *config.Config) error {
	if c.Status.Port == 0 {
		return nil
	}
	return checkFree("status.port", c.Status.Listen, c.Status.Port)
}

// StatusAddress returns where the agent serves its status; empty if nowhere.
func StatusAddress(c *config.Config) string {
	if c.Status.Port == 0 {
		return ""
	}
	return net.JoinHostPort(c.Status.Listen, strconv.Itoa(c.Status.Port))
}

// Instance returns the ports and the address of the gateway of the settings.
func Instance(c *config.Config) gateway.Instance {
	return gateway.Instance{Listen: c.Gateway.Listen, HTTPPort: c.Gateway.HTTPPort, HTTPSPort: c.Gateway.HTTPSPort}
}

// CacheSettings converts the settings of the token cache for the filter.
func CacheSettings(c *config.Config) contract.CacheSettings {
	return contract.CacheSettings{
		MaxBytes: c.Cache.MaxBytes, NegativeTTL: c.Cache.NegativeTTL.Milliseconds(), Grace: c.Cache.Grace.Milliseconds(),
	}
}

// Run runs the control plane and the gateway until ctx ends. The gateway is drained first,
// because requests that are still in flight need the control plane.
func (s *Standalone) Run(ctx context.Context) error {
	cpCtx, stopControlPlane := context.WithCancel(context.WithoutCancel(ctx))
	defer stopControlPlane()
	agentCtx, stopAgent := context.WithCancel(ctx)
	defer stopAgent()
	var g errgroup.Group
	g.Go(func() error {
		defer stopAgent()
		return s.ControlPlane.Run(cpCtx)
	})
	g.Go(func() error {
		defer stopControlPlane()
		return s.Agent.Run(agentCtx)
	})
	return g.Wait()
}

// Close ends a system that was opened but not run.
func (s *Standalone) Close(ctx context.Context) { s.ControlPlane.close(ctx) }
