package operator

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// apiFlags say which running control plane a command asks. Every such command has these
// flags, and no other way to choose it.
type apiFlags struct {
	client.Options
}

func addAPIFlags(c *cobra.Command) *apiFlags {
	f := new(apiFlags)
	c.Flags().StringVar(&f.Address, "address", "", "base URL of either API; empty: the mesh API of this machine, as the settings have it")
	c.Flags().StringVar(&f.CAFile, "ca-cert-file", "", "ca.pem of the control plane, for an https:// address; empty: the system's authorities")
	c.Flags().StringVar(&f.TokenFile, "token-file", "", "file with the administration token, if the address wants one")
	cli.AddConfigFlag(c)
	return f
}

// open makes the client. Its errors are about flags and settings, because no server has been
// asked yet.
func (f *apiFlags) open(c *cobra.Command) (*client.Client, error) {
	o := f.Options
	o.Waiting = func(text string) { _, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", text) }
	if o.Address != "" {
		if c.Flags().Changed("config") {
			return nil, fault.NotBegun(errors.New("--config says where the mesh API of this machine is, and --address names another one: leave one of them out"))
		}
		api, err := client.New(o)
		return api, fault.NotBegun(err)
	}
	l, err := cli.Load(c)
	if err != nil {
		return nil, err
	}
	if l.Config.Mesh.Port == 0 {
		return nil, fault.NotBegun(errors.New("mesh.port of the settings is 0, so the control plane has picked a port: its log says which (mesh=); name it with --address"))
	}
	o.Assumed = "http://" + net.JoinHostPort(httpkit.Loopback(l.Config.Mesh.Listen), strconv.Itoa(l.Config.Mesh.Port))
	o.Whence = "mesh.listen and mesh.port of the settings"
	o.Remedy = "say where it is: with --config, the file of settings that it was started with, or with --address"
	if c.Flags().Changed("config") {
		o.Remedy = "say where it is: give --config the file that it was started with, or --address instead"
	}
	api, err := client.New(o)
	return api, fault.NotBegun(err)
}

// Forms of the output of commands.
const (
	asTable = "table"
	asJSON  = "json"
)

// addOutputFlag adds the flag -o to a command.
func addOutputFlag(c *cobra.Command) *string {
	return c.Flags().StringP("output", "o", asTable, asTable+" or "+asJSON)
}

// checkOutput refuses unknown forms.
func checkOutput(output string) error {
	forms := []string{asTable, asJSON}
	if slices.Contains(forms, output) {
		return nil
	}
	return fault.NotBegun(fmt.Errorf("--output %q is neither %s", output, strings.Join(forms, " nor ")))
}
