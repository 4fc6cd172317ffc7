package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// withState gives a command its configuration and a claim on the state directory
// for as long as it runs.
func withState(run func(context.Context, *config.Loaded, io.Writer) error) func(*cobra.Command, []string) error {
	return withStateBelow(func() string { return "" }, run)
}

// withStateBelow is withState for programs that run several times on a machine:
// unless a state directory is configured, each has a folder of its own below the
// default one.
func withStateBelow(folder func() string, run func(context.Context, *config.Loaded, io.Writer) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		l, err := load(c)
		if err != nil {
			return err
		}
		placeState(l, folder())
		claim, err := claimStateDir(l.Config.StateDir)
		if err != nil {
			return err
		}
		defer claim.Close()
		return run(c.Context(), l, c.OutOrStdout())
	}
}

// placeState moves the default state directory to a folder below it.
func placeState(l *config.Loaded, folder string) {
	if l.Origin["stateDir"] == "default" {
		l.Config.StateDir = filepath.Join(l.Config.StateDir, folder)
	}
}

func runCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the control plane",
		Long: `Run the control plane: the administration API (ports 8001 and 8444), the mesh API (5681),
the data-plane server for proxies (5678) and diagnostics (5680). SIGTERM ends it.` + settingsHelp,
		Example: `  meshgate run --state-dir /var/lib/meshgate --redis-url redis.example:6379`,
		Args:    cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, _ io.Writer) error {
			cp, err := openControlPlane(ctx, &l.Config, newLogger(l.Config.Log))
			if err != nil {
				return err
			}
			return cp.run(ctx)
		}),
	}
	addFlags(c, allBut(ownGateway...))
	return c
}

func standaloneCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "standalone",
		Short: "Run the control plane and one gateway Envoy",
		Long: `Run the control plane, as meshgate run does, and one gateway Envoy (ports 8000 and 8443)
beside it. SIGTERM drains the gateway, then ends both.` + settingsHelp,
		Example: `  meshgate standalone --state-dir /var/lib/meshgate --status-port 8002`,
		Args:    cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, _ io.Writer) error {
			s, err := openStandalone(ctx, &l.Config)
			if err != nil {
				return err
			}
			return s.run(ctx)
		}),
	}
	addFlags(c, everything)
	return c
}

// standalone is a control plane with one gateway.
type standalone struct {
	cp    *controlPlane
	agent *agent.Agent
	envoy string // its version
}

// openStandalone opens everything that can fail before anything runs.
func openStandalone(ctx context.Context, c *config.Config) (*standalone, error) {
	envoy, versionLine, err := findEnvoy(c.Envoy.Path)
	if err != nil {
		return nil, err
	}
	module, err := findModule(c.ModulePath)
	if err != nil {
		return nil, err
	}
	log := newLogger(c.Log)
	if err := freeGatewayPorts(ctx, c, c.Gateway.Name, log); err != nil {
		return nil, err
	}
	if err := freeStatusPort(c); err != nil {
		return nil, err
	}
	cp, err := openControlPlane(ctx, c, log)
	if err != nil {
		return nil, err
	}
	a, err := newOwnAgent(ctx, c, cp, envoy, module, versionLine)
	if err != nil {
		cp.close(ctx)
		return nil, notBegun(err)
	}
	cp.ready.checks = append(cp.ready.checks, func() string {
		// A port is open for as long as the kernel keeps it so, also that of an Envoy
		// that hangs; and one that Envoy was refused may be somebody else's.
		if m := a.Missing(ctx); m != "" {
			return "gateway: " + m
		}
		return cp.gatewayMissing(a.NodeID(), instance(c))
	})
	return &standalone{cp: cp, agent: a, envoy: versionLine}, nil
}

// freeGatewayPorts makes sure that Envoy will get its ports.
func freeGatewayPorts(ctx context.Context, c *config.Config, name string, log *slog.Logger) error {
	if err := agent.EndPredecessor(ctx, c.StateDir, name, c.Drain.Timeout, log); err != nil {
		return notBegun(err)
	}
	if err := checkFree("gateway.httpPort", c.Gateway.Listen, c.Gateway.HTTPPort); err != nil {
		return err
	}
	return checkFree("gateway.httpsPort", c.Gateway.Listen, c.Gateway.HTTPSPort)
}

// newOwnAgent makes the agent of the gateway that runs beside its control plane,
// with a token minted here, which the agent renews.
func newOwnAgent(ctx context.Context, c *config.Config, cp *controlPlane, envoy, module, versionLine string) (*agent.Agent, error) {
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
	accessLog, err := accessLogFile(&c.AccessLog)
	if err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Options{
		AccessLog: accessLog, Access: os.Stdout,
		StateDir: c.StateDir, ControlPlane: model.DefaultControlPlane, Name: c.Gateway.Name,
		Address: fmt.Sprintf("https://127.0.0.1:%d", port(cp.ports.data)), CAFile: cp.caFile, TokenFile: file,
		Instance: instance(c), EnvoyPath: envoy, ModuleDir: module, Versions: versionsOfProxy(versionLine, module),
		Concurrency: c.Envoy.Concurrency, LogLevel: c.Envoy.LogLevel, Drain: agent.Drain(c.Drain), StatusAddress: statusAddress(c),
		Abort: aborted(ctx), Cache: cacheSettings(c), Log: cp.log,
	})
	if err != nil {
		return nil, err
	}
	return meterNode(a), nil
}

// freeStatusPort makes sure that the agent will get the port of its status.
func freeStatusPort(c *config.Config) error {
	if c.Status.Port == 0 {
		return nil
	}
	return checkFree("status.port", c.Status.Listen, c.Status.Port)
}

// statusAddress is where the agent serves its status; empty: nowhere.
func statusAddress(c *config.Config) string {
	if c.Status.Port == 0 {
		return ""
	}
	return net.JoinHostPort(c.Status.Listen, strconv.Itoa(c.Status.Port))
}

func instance(c *config.Config) gateway.Instance {
	return gateway.Instance{Listen: c.Gateway.Listen, HTTPPort: c.Gateway.HTTPPort, HTTPSPort: c.Gateway.HTTPSPort}
}

func cacheSettings(c *config.Config) contract.CacheSettings {
	return contract.CacheSettings{
		MaxBytes: c.Cache.MaxBytes, NegativeTTL: c.Cache.NegativeTTL.Milliseconds(), Grace: c.Cache.Grace.Milliseconds(),
	}
}

// run runs both until ctx ends. The gateway is drained first, because it needs
// the control plane for what is still in flight.
func (s *standalone) run(ctx context.Context) error {
	cpCtx, stopControlPlane := context.WithCancel(context.WithoutCancel(ctx))
	defer stopControlPlane()
	agentCtx, stopAgent := context.WithCancel(ctx)
	defer stopAgent()
	var g errgroup.Group
	g.Go(func() error {
		defer stopAgent()
		return s.cp.run(cpCtx)
	})
	g.Go(func() error {
		defer stopControlPlane()
		return s.agent.Run(agentCtx)
	})
	return g.Wait()
}
