package declare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/model"
)

// fileCommand looks at files without any gateway.
func fileCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:     "file",
		Short:   "Check files without calling a gateway",
		Long:    `Check files without calling a gateway. See docs/declarative.md.`,
		Example: `  meshgate gateway file validate gateway.yaml`,
	}
	onlyCommands(c)
	c.AddCommand(validateFilesCommand(o))
	return c
}

func validateFilesCommand(o *options) *cobra.Command {
	compatible := false
	c := command(&cobra.Command{
		Use:   "validate [FILE]...",
		Short: "Check files, directories or standard input by themselves",
		Long: `Check files, directories or standard input by themselves: their form, each entity, and the
references between them. Nothing is called. What depends on a gateway, such as names that it has
already, is left to diff.`,
		Example: `  meshgate gateway file validate gateway.yaml --cloud-compatibility`,
	}, func(c *cobra.Command, files []string) error { return o.validateFiles(c, files, compatible) })
	c.Flags().BoolVar(&compatible, "cloud-compatibility", false, "also what control planes in the cloud refuse")
	return c
}

// textWorkspaces refuses a workspace for the cloud.
const textWorkspaces = "_workspace set in config file. Workspaces are not supported by control planes in the cloud: remove it"

// validateFiles checks files as sync does before it calls anything.
func (o *options) validateFiles(c *cobra.Command, files []string, compatible bool) error {
	sources, err := readSources(files, c.InOrStdin())
	if err != nil {
		return err
	}
	kinds := Kinds(false, true)
	d, err := Parse(sources, kinds)
	if err != nil {
		return err
	}
	if compatible {
		if err := o.cloudTakes(c, d); err != nil {
			return err
		}
	} else if name := d.Header.Workspace; name != "" && name != defaultName {
		return fmt.Errorf(textNoWorkspace, name)
	}
	tags := tagList(words(d.Header.SelectTags))
	if err := tags.check(); err != nil {
		return err
	}
	b := &builder{document: d, current: newState(), tags: tags, now: time.Now()}
	if len(tags) > 0 { // references may lead to what others own
		b.lookup = func(_ context.Context, k *model.Kind, _ string) (*Entity, error) {
			return &Entity{Kind: k, ID: uuid.NewString()}, nil
		}
	}
	_, err = b.build(c.Context(), kinds)
	return err
}

// cloudTakes refuses what no control plane in the cloud takes. A file that names none is no mistake:
// a flag may name it, but without that it goes to the one called default.
func (o *options) cloudTakes(c *cobra.Command, d *Document) error {
	if d.Header.Workspace != "" {
		return errors.New(textWorkspaces)
	}
	if d.Header.ControlPlane == "" && o.plane == "" {
		waiting(c)("the files name no control plane (" + keyCloud + ".control_plane_name): without --" + flagPlane + " they go to the one called " + defaultName)
	}
	return nil
}
