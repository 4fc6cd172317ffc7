package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
)

// dataplaneFlags are what only this command has.
type dataplaneFlags struct {
	proxyType, cpAddress, caFile, controlPlane, name, tokenFile string
	adminPort                                                   int
}

func dataplaneCommand() *cobra.Command {
	var f dataplaneFlags
	c := &cobra.Command{
		Use:   "dataplane",
		Short: "Run one Envoy of a given type",
		Args:  cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, _ io.Writer) error {
			a, err := openDataplane(ctx, &l.Config, &f)
			if err != nil {
				return err
			}
			return a.Run(ctx)
		}),
	}
	addFlags(c)
	c.Flags().StringVar(&f.proxyType, "proxy-type", "", "what the Envoy is: oauth-gateway")
	c.Flags().StringVar(&f.cpAddress, "cp-address", "https://127.0.0.1:5678", "the control plane's data-plane server")
	c.Flags().StringVar(&f.caFile, "ca-cert-file", "", "PEM bundle that the control plane's certificate is pinned to")
	c.Flags().StringVar(&f.controlPlane, "control-plane", model.DefaultControlPlane, "the control plane that an oauth-gateway belongs to")
	c.Flags().StringVar(&f.name, "name", "", "instance name; the node token is for this name")
	c.Flags().StringVar(&f.tokenFile, "dataplane-token-file", "", "file with the node token")
	c.Flags().IntVar(&f.adminPort, "admin-interface-port", 0, "loopback port of Envoy's admin interface; 0: a Unix socket in the run directory")
	return c
}

func openDataplane(ctx context.Context, cfg *config.Config, f *dataplaneFlags) (*agent.Agent, error) {
	if f.proxyType != "oauth-gateway" {
		return nil, notBegun(fmt.Errorf("--proxy-type %q is none that exists; use oauth-gateway", f.proxyType))
	}
	if f.caFile == "" || f.tokenFile == "" {
		return nil, notBegun(errors.New("--ca-cert-file and --dataplane-token-file are needed"))
	}
	if err := identity.CheckInstance(f.name); err != nil {
		return nil, notBegun(fmt.Errorf("--name %q: %w", f.name, err))
	}
	envoy, _, err := findEnvoy(cfg.Envoy.Path)
	if err != nil {
		return nil, err
	}
	module, err := findModule(cfg.ModulePath)
	if err != nil {
		return nil, err
	}
	log := newLogger(cfg.Log)
	if err := freeGatewayPorts(ctx, cfg, f.name, log); err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Options{
		StateDir: cfg.StateDir, ControlPlane: f.controlPlane, Name: f.name, Address: f.cpAddress, CAFile: f.caFile, TokenFile: f.tokenFile,
		Instance: instance(cfg), EnvoyPath: envoy, ModuleDir: module, AdminPort: f.adminPort,
		Concurrency: cfg.Envoy.Concurrency, LogLevel: cfg.Envoy.LogLevel, DrainTimeout: cfg.Envoy.DrainTimeout,
		Abort: aborted(ctx), Cache: cacheSettings(cfg), Log: log,
	})
	return a, notBegun(err)
}
