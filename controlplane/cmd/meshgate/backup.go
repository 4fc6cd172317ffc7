package main

import (
	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/cli"
)

const backupHelp = `Write both databases of a control plane into one new file, with a manifest.

The control plane may run: the command reads the databases beside it and holds it up
in nothing. Every change that was acknowledged before the command began is in the
backup. Run it as the user of the control plane, with its settings (state directory,
store.sqlite.path).

The encryption key is in the backup only with --passphrase-file. Otherwise keep a copy
of it apart: nobody can restore the backup without it.`

func backupCommand() *cobra.Command {
	var passphraseFile string
	c := &cobra.Command{
		Use:     "backup FILE",
		Short:   "Write a backup of the control plane's databases, while it runs",
		Long:    backupHelp,
		Example: `  meshgate backup meshgate.backup --state-dir /var/lib/meshgate --passphrase-file passphrase`,
		Args:    cli.Wants,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := cli.Load(c)
			if err != nil {
				return err
			}
			return assembly.WriteBackup(c.Context(), &l.Config, args[0], passphraseFile, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&passphraseFile, "passphrase-file", "", "file with a passphrase; the encryption key is then in the backup, wrapped with it")
	cli.AddFlags(c, cli.Only(cli.StoreSettings...))
	return c
}
