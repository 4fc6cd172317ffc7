package declare

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshgate/meshgate/controlplane/cli"
)

const helpFlags = `
Flags that say which gateway: meshgate gateway --help. Exit codes: 0 well, 1 failed, 2 differences.`

// GatewayCommand brings files to a gateway, and writes them.
func GatewayCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Bring files to a gateway, or write what it holds to a file",
		Long: `Bring files to a gateway, or to a control plane in the cloud (--cloud-..., _cloud in the file).
Flags may be in the environment: MESHGATE_GATEWAY_ADDR. See docs/declarative.md.`,
		Example: `  meshgate gateway dump -o gateway.yaml`,
	}
	o.toGateway(c.PersistentFlags())
	group(c)
	c.AddCommand(dumpCommand(o), diffCommand(o), syncCommand(o), resetCommand(o), validateCommand(o), fileCommand(o), pingCommand(o))
	return c
}

// group completes a command that only has commands: their errors have the exit code of the
// tool, and their help leaves out the flags that this one shows.
func group(c *cobra.Command) {
	onlyCommands(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return coded(cli.BadFlag(c, err)) })
	c.SetHelpFunc(func(called *cobra.Command, args []string) {
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) {
			f.Hidden = called != c || slices.Contains(seldom, f.Name)
		})
		defer c.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = false })
		help := (&cobra.Command{}).HelpFunc()
		if root := c.Root(); root != c {
			help = root.HelpFunc()
		}
		help(called, args)
	})
}

// onlyCommands completes a command that does nothing by itself.
func onlyCommands(c *cobra.Command) {
	c.Args = func(c *cobra.Command, args []string) error { return coded(cobra.NoArgs(c, args)) }
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// seldom are flags that help texts leave out; docs/declarative.md has them.
var seldom = []string{"headers", "parallelism", flagWorkspace}

func dumpCommand(o *options) *cobra.Command {
	c := command(&cobra.Command{
		Use:   "dump",
		Short: "Write what a gateway holds to a file",
		Long: `Write what a gateway holds to a file, or to standard output. Equal gateways give equal files.
The file has the secrets of the gateway in clear; only its owner can read it.` + helpFlags,
		Example: `  meshgate gateway dump -o gateway.yaml --select-tag team-a`,
		Args:    none,
	}, func(c *cobra.Command, _ []string) error { return o.dump(c) })
	f := c.Flags()
	f.StringVarP(&o.output, "output-file", "o", "", "file to write")
	f.StringVar(&o.format, "format", asYAML, "yaml or json")
	f.BoolVar(&o.withID, "with-id", false, "write the ids, so that another gateway gets the same")
	f.BoolVar(&o.tokens, flagTokens, false, "access tokens, too, which are secrets of users")
	o.selected(f)
	o.asking(f)
	return c
}

func diffCommand(o *options) *cobra.Command {
	c := command(&cobra.Command{
		Use:   "diff [FILE]...",
		Short: "Show what sync would do",
		Long: `Show what sync would do with files, directories, or standard input. Nothing is written, and
no secret is shown.` + helpFlags,
		Example: `  meshgate gateway diff gateway.yaml --non-zero-exit-code`,
	}, func(c *cobra.Command, files []string) error { return o.compare(c, files, false) })
	o.compared(c)
	return c
}

// compared adds the flags of diff and sync.
func (o *options) compared(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.nonZero, "non-zero-exit-code", false, "exit code 2 if there are differences")
	f.BoolVar(&o.tokens, flagTokens, false, "access tokens, too: adds and changes them, deletes none")
	o.selected(f)
	o.planned(f)
}

func syncCommand(o *options) *cobra.Command {
	c := command(&cobra.Command{
		Use:   "sync [FILE]...",
		Short: "Make a gateway hold what files say, and nothing else",
		Long: `Make a gateway hold what files, directories or standard input say, and nothing else: what
they do not name is deleted, with select tags only what has these tags. What succeeded stays if
something fails; nothing is deleted then.` + helpFlags,
		Example: `  meshgate gateway sync gateway.yaml
  meshgate gateway sync gateway.yaml --cloud-control-plane-name team-a`,
	}, func(c *cobra.Command, files []string) error { return o.compare(c, files, true) })
	o.compared(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "write nothing: ask the control plane what each write would do")
	c.Flags().Lookup("non-zero-exit-code").Usage = "exit code 2 if there were differences"
	return c
}

func resetCommand(o *options) *cobra.Command {
	c := command(&cobra.Command{
		Use:     "reset",
		Short:   "Delete everything that a gateway holds",
		Long:    `Delete everything that a gateway holds, or what has the select tags.` + helpFlags,
		Example: `  meshgate gateway reset --select-tag team-a --yes`,
		Args:    none,
	}, func(c *cobra.Command, _ []string) error { return o.reset(c) })
	o.selected(c.Flags())
	o.planned(c.Flags())
	o.asking(c.Flags())
	return c
}

func validateCommand(o *options) *cobra.Command {
	c := command(&cobra.Command{
		Use:     "validate [FILE]...",
		Short:   "Have a gateway check files, and store nothing",
		Long:    `Have a gateway check each entity of files. Nothing is stored.` + helpFlags,
		Example: `  meshgate gateway validate gateway.yaml`,
	}, func(c *cobra.Command, files []string) error { return o.validate(c, files) })
	c.Flags().Var(&o.tags, flagTags, "tag that everything gets")
	return c
}

func pingCommand(o *options) *cobra.Command {
	return command(&cobra.Command{
		Use:     "ping",
		Short:   "Ask a gateway whether it is there",
		Long:    `Ask a gateway whether it is there.` + helpFlags,
		Example: `  meshgate gateway ping`,
		Args:    none,
	}, func(c *cobra.Command, _ []string) error { return o.ping(c) })
}

// none refuses arguments. They are not repeated: one may be the value of a flag whose name is
// missing.
func none(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return coded(errSurplus)
}

var errSurplus = errors.New("too much is given: this command takes flags only")
