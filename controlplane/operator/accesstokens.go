package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// accessTokens is where the cloud API has personal access tokens.
const accessTokens = "/v2/personal-access-tokens" //nolint:gosec // a path

// accessToken is one of them, as the API shows it. Token is only in the answer to its creation.
type accessToken struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Role          string   `json:"role"`
	ControlPlanes []string `json:"control_planes"`
	System        bool     `json:"system"`
	ExpiresAt     string   `json:"expires_at"`
	CreatedAt     string   `json:"created_at"`
	Token         string   `json:"token"`
}

// accessTokenCommands are about the personal access tokens of the control plane on this machine.
func accessTokenCommands() []*cobra.Command {
	return []*cobra.Command{createTokenCommand(), listTokensCommand(), revokeTokenCommand()}
}

// locally gives a command the control plane that has a state directory on this machine. Its socket there
// asks for no token: who can open it can read the database.
func locally(c *cobra.Command, run func(c *cobra.Command, api *client.Client, args []string) error) *cobra.Command {
	cli.AddConfigFlag(c)
	dir := c.Flags().String("state-dir", "", "state directory of the running control plane; empty: that of the settings")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *dir == "" {
			l, err := cli.Load(c)
			if err != nil {
				return err
			}
			*dir = l.Config.StateDir
		}
		socket := filepath.Join(*dir, cloud.LocalSocket)
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
			return fault.NotBegun(fmt.Errorf("no control plane runs with the state directory %s: start it, or name its directory with --state-dir", *dir))
		}
		api, err := client.New(client.Options{Socket: socket, Whence: "its state directory", Waiting: func(text string) { _, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", text) }})
		if err != nil {
			return fault.NotBegun(err)
		}
		defer api.Close()
		return run(c, api, args)
	}
	return c
}

func createTokenCommand() *cobra.Command {
	var t accessToken
	var life time.Duration
	c := locally(&cobra.Command{
		Use:   "create",
		Short: "Create a personal access token, and print it once",
		Long: `Create a personal access token of the control plane that runs on this machine, and print it. It is
shown nowhere else: what is stored is a digest.`,
		Example: `  meshgate token create --name ci --role admin
  meshgate token create --name dashboards --role viewer --control-plane default --valid-for 720h`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, api *client.Client, _ []string) error {
		body := map[string]any{"name": t.Name, "role": t.Role, "system": t.System}
		if len(t.ControlPlanes) > 0 {
			body["control_planes"] = t.ControlPlanes
		}
		if life < 0 {
			return fault.NotBegun(errors.New("--valid-for must be positive"))
		}
		if life > 0 {
			body["expires_at"] = time.Now().Add(life).UTC().Format(time.RFC3339)
		}
		var made accessToken
		if err := api.Call(c.Context(), "POST", accessTokens, nil, body, &made); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.OutOrStdout(), made.Token)
		return err
	})
	c.Flags().StringVar(&t.Name, "name", "", "name of the token, which records of changes name")
	c.Flags().StringVar(&t.Role, "role", "", "admin, editor or viewer")
	c.Flags().StringSliceVar(&t.ControlPlanes, "control-plane", nil, "name or id of a control plane that it is for; may be given more than once; empty: everything")
	c.Flags().BoolVar(&t.System, "system", false, "the token is of a program")
	c.Flags().DurationVar(&life, "valid-for", 0, "duration such as 720h; 0: until it is revoked")
	return c
}

func listTokensCommand() *cobra.Command {
	return locally(&cobra.Command{
		Use: "list", Short: "List the personal access tokens", Args: cobra.NoArgs, Example: `  meshgate token list`,
	}, func(c *cobra.Command, api *client.Client, _ []string) error {
		tokens, err := listTokens(c, api)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "NAME\tROLE\tCONTROL PLANES\tCREATED\tEXPIRES") // Flush reports errors
		for _, t := range tokens {
			planes, end := "all", "never"
			if len(t.ControlPlanes) > 0 {
				planes = strings.Join(t.ControlPlanes, ",")
			}
			if t.ExpiresAt != "" {
				end = t.ExpiresAt
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", client.Plain(t.Name), t.Role, client.Plain(planes), t.CreatedAt, end)
		}
		return w.Flush()
	})
}

// listTokens reads all pages.
func listTokens(c *cobra.Command, api *client.Client) (all []accessToken, err error) {
	for n := 1; ; n++ {
		var page struct {
			Data []accessToken `json:"data"`
			Meta struct {
				Page struct {
					Total int `json:"total"`
				} `json:"page"`
			} `json:"meta"`
		}
		query := url.Values{"page[size]": {"100"}, "page[number]": {strconv.Itoa(n)}}
		if err := api.Get(c.Context(), accessTokens, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if len(page.Data) == 0 || len(all) >= page.Meta.Page.Total {
			return all, nil
		}
	}
}

func revokeTokenCommand() *cobra.Command {
	return locally(&cobra.Command{
		Use: "revoke NAME", Short: "Revoke a personal access token", Args: cobra.ExactArgs(1), Example: `  meshgate token revoke ci`,
	}, func(c *cobra.Command, api *client.Client, args []string) error {
		tokens, err := listTokens(c, api)
		if err != nil {
			return err
		}
		for _, t := range tokens {
			if t.Name == args[0] {
				return api.Call(c.Context(), "DELETE", accessTokens+"/"+t.ID, nil, nil, nil)
			}
		}
		return fmt.Errorf("there is no personal access token %q: meshgate token list shows them", args[0])
	})
}
