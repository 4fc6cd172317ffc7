package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/authz"
	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
)

// authzFlags are the flags that only this command has.
type authzFlags struct{ listen, settings string }

func authzCommand() *cobra.Command {
	var f authzFlags
	c := &cobra.Command{
		Use:   "authz",
		Short: "Decide requests for an Envoy of your own",
		Long: `Decide requests for an Envoy of your own, whose ext_authz filter asks this server about each
of them. docs/filter.md has a complete configuration of such an Envoy. A gateway with
filter.mode extauthz has a service of its own, unless filter.authz names this one. Envoy runs
as the same user: no other may connect to the socket. SIGTERM ends the command.` + cli.SettingsHelp,
		Example: `  meshgate authz --listen unix:///run/meshgate/authz.sock --settings settings.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := cli.Load(c)
			if err != nil {
				return err
			}
			return f.serve(c.Context(), &l.Config)
		},
	}
	c.Flags().StringVar(&f.listen, "listen", "", "unix:// and the path of the socket to make; its folder must be there, and nobody else's to write to")
	c.Flags().StringVar(&f.settings, "settings", "", "file that names the control plane, the node and its token")
	cli.AddFlags(c, cli.Only(slices.Concat(cli.LogSettings, []string{"status."})...))
	return c
}

func (f *authzFlags) serve(ctx context.Context, cfg *config.Config) error {
	if err := f.check(); err != nil {
		return fault.NotBegun(err)
	}
	log := cfg.Log.Logger()
	if err := assembly.FreeStatusPort(cfg); err != nil {
		return err
	}
	s := authz.New(log)
	if err := s.Open(ctx, f.listen, f.settings, ""); err != nil {
		return fault.NotBegun(fmt.Errorf("--listen: %w", err))
	}
	return assembly.ServeAuthz(ctx, cfg, s, log)
}

// check looks at the flags, and reads the settings, so that an error in them ends the command.
// Later versions of the file are read while the command runs.
func (f *authzFlags) check() error {
	if _, err := contract.SocketPath(f.listen); err != nil {
		return fmt.Errorf("--listen %w", err)
	}
	if f.settings == "" {
		return errors.New("--settings is needed")
	}
	data, err := os.ReadFile(f.settings)
	if err != nil {
		return fmt.Errorf("--settings: %w", err)
	}
	if _, err := contract.ParseSettings(data); err != nil {
		return fmt.Errorf("--settings %s: %w", f.settings, err)
	}
	return nil
}
