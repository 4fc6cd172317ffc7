package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/config"
)

// withState gives a control plane its configuration, and a claim on the state directory while
// it runs. A control plane that is told to end while it stands by has done what it should.
func withState(run func(context.Context, *config.Loaded, io.Writer) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		l, err := cli.Load(c)
		if err != nil {
			return err
		}
		claim, err := assembly.AwaitStateDir(c.Context(), &l.Config, l.Config.Log.Logger())
		if err == nil {
			defer claim.Close()
			err = run(c.Context(), l, c.OutOrStdout())
		}
		if errors.Is(err, assembly.ErrStoodBy) {
			return nil
		}
		return err
	}
}

// withStateBelow is the same for programs that run several times on a machine. Unless a
// state directory is configured, each has its own folder below the default one.
func withStateBelow(folder func() string, run func(context.Context, *config.Loaded, io.Writer) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		l, err := cli.Load(c)
		if err != nil {
			return err
		}
		placeState(l, folder())
		claim, err := assembly.ClaimStateDir(l.Config.StateDir)
		if err != nil {
			return err
		}
		defer claim.Close()
		return run(c.Context(), l, c.OutOrStdout())
	}
}

// placeState moves the default state directory into a folder below it.
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
the data-plane server for proxies (5678) and diagnostics (5680). SIGTERM ends it.` + cli.SettingsHelp,
		Example: `  meshgate run --state-dir /var/lib/meshgate --redis-url redis.example:6379`,
		Args:    cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, _ io.Writer) error {
			cp, err := assembly.OpenControlPlane(ctx, &l.Config, l.Config.Log.Logger())
			if err != nil {
				return err
			}
			return cp.Run(ctx)
		}),
	}
	cli.AddFlags(c, cli.AllBut(cli.OwnGateway...))
	return c
}

func standaloneCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "standalone",
		Short: "Run the control plane and one gateway Envoy",
		Long: `Run the control plane, as meshgate run does, and one gateway Envoy (ports 8000 and 8443)
beside it. SIGTERM drains the gateway, then ends both.` + cli.SettingsHelp,
		Example: `  meshgate standalone --state-dir /var/lib/meshgate --status-port 8002`,
		Args:    cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, _ io.Writer) error {
			s, err := assembly.OpenStandalone(ctx, &l.Config, aborted(ctx))
			if err != nil {
				return err
			}
			return s.Run(ctx)
		}),
	}
	cli.AddFlags(c, cli.Everything)
	return c
}
