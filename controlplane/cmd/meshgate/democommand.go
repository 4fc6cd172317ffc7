package main

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/demo"
)

func demoCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run standalone with an upstream and example resources, and say what to try",
		Long: `Run meshgate standalone with an upstream, example resources and two services of a mesh,
and say what to try. Each start makes the same resources anew.` + cli.SettingsHelp,
		Example: `  meshgate demo --once --state-dir .state`,
		Args:    cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, out io.Writer) error {
			if l.Origin["log.level"] == "default" {
				l.Config.Log.Level = "warn" // leave the terminal to the demo
			}
			if l.Origin["drain.delay"] == "default" {
				l.Config.Drain.Delay = 0 // there is no load balancer
			}
			if l.Origin["accessLog.path"] == "default" {
				l.Config.AccessLog.Path = filepath.Join(l.Config.StateDir, "access.log") // so that the log is not on the terminal either
			}
			return demo.Run(ctx, &l.Config, aborted(ctx), once, out)
		}),
	}
	cli.AddFlags(c, cli.Everything)
	c.Flags().BoolVar(&once, "once", false, "perform the story, narrate each step, and exit with 0 or 1")
	return c
}
