package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/extauthz"
	"github.com/meshgate/meshgate/filter/host"
)

// authzFlags are the flags that only this command has.
type authzFlags struct{ listen, settings string }

func authzCommand() *cobra.Command {
	var f authzFlags
	c := &cobra.Command{
		Use:   "authz",
		Short: "Decide requests for an Envoy of your own",
		Long: `Decide requests for an Envoy of your own, whose ext_authz filter asks this server about each
of them. docs/filter.md has a complete configuration of such an Envoy. SIGTERM ends it.` + cli.SettingsHelp,
		Example: `  meshgate authz --listen 127.0.0.1:9191 --settings settings.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := cli.Load(c)
			if err != nil {
				return err
			}
			return f.serve(c.Context(), &l.Config)
		},
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:9191", "loopback address and port, or unix:// and the path of a socket")
	c.Flags().StringVar(&f.settings, "settings", "", "file that names the control plane, the node and its token")
	cli.AddFlags(c, cli.Only(cli.LogSettings...))
	return c
}

func (f *authzFlags) serve(ctx context.Context, cfg *config.Config) error {
	if err := f.check(); err != nil {
		return fault.NotBegun(err)
	}
	log := cfg.Log.Logger()
	lis, err := extauthz.Listen(ctx, f.listen)
	if err != nil {
		return fault.NotBegun(fmt.Errorf("--listen: %w", err))
	}
	s, err := extauthz.New(log, func(h *host.Host) (host.Tokens, error) { return h.OpenCache(nil, f.settings) })
	if err != nil {
		_ = lis.Close()
		return err
	}
	defer s.Close()
	log.Info("authorization service is ready", "address", f.listen)
	return s.Serve(ctx, lis)
}

// check reads the settings, so that an error in them ends the command. Later versions of the
// file are read while the command runs.
func (f *authzFlags) check() error {
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
