package operator

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
)

// KeysCommand lists, rotates and deletes keys of a running control plane.
func KeysCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate and delete the keys of a running control plane",
		Long: `List, rotate and delete the keys of a running control plane, through its mesh API.
docs/operations/keys.md says what each key protects, and how it is replaced without a
refused request.`,
		Example: `  meshgate keys list`,
		Args:    cobra.NoArgs, // a word that is none of these commands must not look like success
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(keysListCommand(), keysRotateCommand(), keysDeleteCommand())
	return c
}

func keysListCommand() *cobra.Command {
	var output *string
	var api *apiFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "Show every key, and nothing that is secret",
		Example: `  meshgate keys list --output json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(*output); err != nil {
				return err
			}
			list, err := keysOf(c, api)
			if err != nil {
				return err
			}
			if *output == asJSON {
				return printAll(c.OutOrStdout(), map[string]any{"items": list})
			}
			return printKeys(c.OutOrStdout(), list)
		},
	}
	output, api = addOutputFlag(c), addAPIFlags(c)
	return c
}

func keysRotateCommand() *cobra.Command {
	var r meshapi.KeyRotation
	var api *apiFlags
	c := &cobra.Command{
		Use:   "rotate KIND",
		Short: "Add a new key of a kind, which is used from now on",
		Long: "Add a new key of a kind, which is used from now on.\nKIND is one of\n" + kindsInLines() + `.
The other kinds of "meshgate keys list" are replaced in other ways: the roots of meshes
(mesh-ca) as "A new root" in docs/mesh.md says, all others as docs/operations/keys.md does.`,
		Example: `  meshgate keys rotate node-tokens`,
		Args:    cli.Wants,
		RunE: func(c *cobra.Command, args []string) error {
			var said struct{ Message string }
			if err := callKeys(c, api, http.MethodPost, "/keys/"+url.PathEscape(args[0])+"/rotate", nil, r, &said); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), said.Message)
			return err
		},
	}
	c.Flags().StringVar(&r.Mesh, "mesh", "", "the mesh whose key is meant")
	c.Flags().BoolVar(&r.Compromised, "compromised", false, "with keys that sign tokens or events: withdraw every key that there is, because one was stolen; each holder of a token needs a new one")
	c.Flags().BoolVar(&r.Force, "force", false, "with control-plane-ca: take the next step although it cuts off nodes")
	c.Flags().BoolVar(&r.ForgetOld, "forget-old", false, "with encryption: drop the old keys from the key file once nothing is left under them; backups from before then need a copy of them")
	api = addAPIFlags(c)
	return c
}

// kindsInLines lists the kinds that can be rotated, in lines that fit on a screen.
func kindsInLines() string {
	half := len(meshapi.Rotatable) / 2
	return strings.Join(meshapi.Rotatable[:half], ", ") + ",\n" + strings.Join(meshapi.Rotatable[half:], ", ")
}

// globalKeys are the names of the global secrets that hold keys, up to their suffix.
var globalKeys = map[string]string{
	meshapi.KeysUserTokens: mesh.UserToken, meshapi.KeysZoneTokens: mesh.ZoneToken, meshapi.KeysZoneIngressTokens: mesh.ZoneIngressToken,
}

func keysDeleteCommand() *cobra.Command {
	var meshName string
	var force bool
	var api *apiFlags
	c := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete a key that signed tokens or events, once nobody uses it",
		Long:  "Delete a key that signed tokens or events, once nobody uses it. KIND is one of\n" + strings.Join(meshapi.Withdrawable, ", ") + ".",
		Example: `  meshgate keys delete node-tokens 1
  meshgate keys delete audit-log 1`,
		Args: cli.Wants,
		RunE: func(c *cobra.Command, args []string) error {
			path := "/keys/" + url.PathEscape(args[0]) + "/" + url.PathEscape(args[1])
			if args[0] == meshapi.KeysDataplaneTokens {
				if meshName == "" {
					return fault.NotBegun(errors.New("--mesh is needed: the keys of dataplane tokens are those of one mesh"))
				}
				path = "/meshes/" + url.PathEscape(meshName) + "/secrets/" + url.PathEscape(mesh.TokenSigningKey+meshName+"-"+args[1])
			}
			if prefix := globalKeys[args[0]]; prefix != "" {
				path = "/global-secrets/" + url.PathEscape(prefix+mesh.SigningKeySuffix+args[1])
			}
			if err := callKeys(c, api, http.MethodDelete, path, url.Values{"force": {strconv.FormatBool(force)}}, nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "Key %s of %s is deleted.\n", args[1], args[0])
			return err
		},
	}
	c.Flags().StringVar(&meshName, "mesh", "", "the mesh whose key is meant")
	c.Flags().BoolVar(&force, "force", false, "with keys that sign tokens: delete it although it is needed: nodes whose tokens it signed are refused until they have new ones")
	api = addAPIFlags(c)
	return c
}

// callKeys asks the control plane. It replaces parameters of the API in refusals by the
// corresponding flags.
func callKeys(c *cobra.Command, f *apiFlags, method, path string, query url.Values, body, answer any) error {
	api, err := f.open(c)
	if err != nil {
		return err
	}
	defer api.Close()
	err = api.Call(c.Context(), method, path, query, body, answer)
	if refusal, ok := errors.AsType[*client.Refusal](err); ok {
		refusal.Text = strings.ReplaceAll(refusal.Text, "?force=true", "--force")
	}
	return err
}

// keysOf returns all keys.
func keysOf(c *cobra.Command, f *apiFlags) ([]meshapi.Key, error) {
	api, err := f.open(c)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	list, err := client.Read[meshapi.Key](c.Context(), api, "/keys", nil, true)
	return list.Items, err
}

// printKeys prints keys as a table.
func printKeys(w io.Writer, keys []meshapi.Key) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	day := func(at *time.Time) string {
		if at == nil {
			return "-"
		}
		return at.UTC().Format(time.DateOnly)
	}
	_, _ = fmt.Fprintln(t, "KIND\tNAME\tMESH\tSTATE\tALGORITHM\tSINCE\tEXPIRES\tIN USE\tNEXT ROTATION\tPURPOSE")
	for _, k := range keys {
		_, _ = fmt.Fprintln(t, strings.Join([]string{
			k.Kind, k.Name, cmp.Or(k.Mesh, "-"), k.State, k.Algorithm, day(k.Since), day(k.Expires), cmp.Or(k.InUse, "-"), k.Next, k.Purpose,
		}, "\t"))
	}
	return t.Flush()
}
