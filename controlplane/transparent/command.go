package transparent

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// Command returns the command that has connections of this machine redirected.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:     "transparent-proxy",
		Short:   "Lead the connections of this machine through its proxy",
		Long:    `Lead the connections of this machine through its proxy, so that workloads need not know it.`,
		Example: `  meshgate transparent-proxy install --dry-run`,
	}
	cli.BriefHelp(c)
	c.AddCommand(installCommand(), uninstallCommand())
	return c
}

func installCommand() *cobra.Command {
	var w words
	var o Options
	var dry bool
	c := &cobra.Command{
		Use:   "install",
		Short: "Install the rules, in the place of those installed before",
		Long: `Install the rules, in the place of those installed before. They are one table of nf_tables
named meshgate; no other rules are touched. Run the proxy as a user of its own: all others are
redirected. Connections that are open already stay as they are. Needs root.`,
		Example: `  meshgate transparent-proxy install --proxy-user meshgate --redirect-dns-port 15053`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.read(&o); err != nil {
				return fault.NotBegun(err)
			}
			if vs := o.Check(); len(vs) > 0 {
				return fault.NotBegun(wrong(vs))
			}
			if err := o.checkResolver(resolvConf); err != nil {
				return fault.NotBegun(err)
			}
			return install(c.OutOrStdout(), o.Rules(), dry)
		},
	}
	f := c.Flags()
	f.StringVar(&w.user, "proxy-user", "meshgate", "name or number of the user that the proxy and its agent run as")
	f.Uint16Var(&o.Outbound, "redirect-outbound-port", DefaultOutbound, "port of the proxy for connections from here; 0 for none")
	f.Uint16Var(&o.Inbound, "redirect-inbound-port", DefaultInbound, "port of the proxy for connections to here; 0 for none")
	f.Uint16Var(&o.DNS, "redirect-dns-port", 0, "port for questions for names; 0 for none")
	f.StringSliceVar(&w.notOutbound, "exclude-outbound-ports", nil, "ports and ranges of ports to leave alone")
	f.StringSliceVar(&w.notInbound, "exclude-inbound-ports", []string{"22"}, "the same for connections to here")
	f.StringSliceVar(&w.notUsers, "exclude-users", nil, "users, by name or number or range, to leave alone")
	f.StringSliceVar(&w.notTo, "exclude-networks", nil, "networks, such as 10.0.0.0/8, to leave alone")
	f.BoolVar(&o.IPv6, "ipv6", false, "redirect IPv6, too; the proxy must listen there")
	f.BoolVar(&dry, "dry-run", false, "print the rules as nft reads them, and change nothing")
	return c
}

func install(out io.Writer, chains []Chain, dry bool) error {
	if dry {
		_, err := io.WriteString(out, Text(chains))
		return err
	}
	if err := Install(chains); err != nil {
		return err
	}
	rules := 0
	for _, c := range chains {
		rules += len(c.Rules)
	}
	_, err := fmt.Fprintf(out, "installed: table inet %s with %d rules. Connections that are opened from now on go through the proxy.\n", Table, rules)
	return err
}

func uninstallCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:     "uninstall",
		Short:   "Remove what was installed, and nothing else",
		Long:    `Remove what was installed, and nothing else. It is no error if nothing was. Needs root.`,
		Example: `  meshgate transparent-proxy uninstall`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dry {
				_, err := fmt.Fprintf(c.OutOrStdout(), "delete table inet %s\n", Table)
				return err
			}
			was, err := Uninstall()
			if err != nil {
				return err
			}
			text := "removed: new connections no longer go through the proxy."
			if !was {
				text = "nothing was installed."
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be done as nft reads it, and change nothing")
	return c
}

// wrong joins violations, whose paths are flags.
func wrong(vs []fault.Violation) error {
	var texts []string
	for _, v := range vs {
		texts = append(texts, v.Path+" "+v.Message)
	}
	return errors.New(strings.Join(texts, "; "))
}
