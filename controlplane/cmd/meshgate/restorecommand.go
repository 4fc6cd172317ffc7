package main

import (
	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/fault"
)

const restoreHelp = `Make a state directory from a backup.

The state directory must be empty or missing. The encryption key comes from
--encryption-key-file, from the backup itself (--passphrase-file), or from where the
settings say that it is. What was revoked after the backup was made is valid again:
revoke it again. The control plane whose backup this is must not run any more.`

func restoreCommand() *cobra.Command {
	var r assembly.Restore
	c := &cobra.Command{
		Use:     "restore FILE",
		Short:   "Make a state directory from a backup",
		Long:    restoreHelp,
		Example: `  meshgate restore meshgate.backup --state-dir /var/lib/meshgate --passphrase-file passphrase`,
		Args:    cli.Wants,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := cli.Load(c)
			if err != nil {
				return err
			}
			r.Config, r.File, r.Log = &l.Config, args[0], l.Config.Log.Logger()
			return fault.NotBegun(r.Run(c.Context(), c.OutOrStdout()))
		},
	}
	c.Flags().StringVar(&r.KeyFile, "encryption-key-file", "", "file with the encryption key of the backup; it is copied to where the settings say that the key is")
	c.Flags().StringVar(&r.PassphraseFile, "passphrase-file", "", "file with the passphrase of the encryption key in the backup")
	cli.AddFlags(c, cli.Only(cli.StoreSettings...))
	return c
}
