package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
)

func keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate and delete the keys of a running control plane",
		Long: `List, rotate and delete the keys of a running control plane, through its mesh API
on this machine. Run it with the control plane's settings. docs/operations/keys.md
says what each key protects, and how it is replaced without a refused request.`,
	}
	c.AddCommand(keysListCommand(), keysRotateCommand(), keysDeleteCommand())
	return c
}

func keysListCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "Show every key, and nothing that is secret",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return notBegun(fmt.Errorf("-o %q is none that exists; use table or json", output))
			}
			answer, err := callMesh(c, http.MethodGet, "/keys", nil)
			if err != nil || output == "json" {
				_, _ = c.OutOrStdout().Write(answer)
				return err
			}
			var list struct{ Items []meshapi.Key }
			if err := json.Unmarshal(answer, &list); err != nil {
				return fmt.Errorf("the control plane's answer cannot be read: %w", err)
			}
			return printKeys(c.OutOrStdout(), list.Items)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	addFlags(c)
	return c
}

func keysRotateCommand() *cobra.Command {
	var r meshapi.KeyRotation
	c := &cobra.Command{
		Use:   "rotate KIND",
		Short: "Add a new key of a kind, which is used from now on",
		Long:  "Add a new key of a kind, which is used from now on. KIND is one of " + strings.Join(rotatable, ", ") + ".",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := json.Marshal(r)
			if err != nil {
				return err
			}
			answer, err := callMesh(c, http.MethodPost, "/keys/"+url.PathEscape(args[0])+"/rotate", body)
			if err != nil {
				return err
			}
			var said struct{ Message string }
			if err := json.Unmarshal(answer, &said); err != nil {
				return fmt.Errorf("the control plane's answer cannot be read: %w", err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), said.Message)
			return err
		},
	}
	c.Flags().StringVar(&r.Mesh, "mesh", "", "the mesh whose key is meant")
	c.Flags().BoolVar(&r.Compromised, "compromised", false, "with "+strings.Join(withdrawable, " and ")+": withdraw every key that there is, because one was stolen; each node needs a new token")
	c.Flags().BoolVar(&r.Force, "force", false, "with control-plane-ca: take the next step although it cuts off nodes")
	c.Flags().BoolVar(&r.ForgetOld, "forget-old", false, "with encryption: drop the old keys from the key file once nothing is left under them; backups from before then need a copy of them")
	addFlags(c)
	return c
}

func keysDeleteCommand() *cobra.Command {
	var meshName string
	var force bool
	c := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete a key that signed tokens, once no node uses it",
		Long:  "Delete a key that signed tokens, once no node uses it. KIND is " + keysNodeTokens + " or " + keysDataplaneTokens + ".",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			path := "/keys/" + url.PathEscape(args[0]) + "/" + url.PathEscape(args[1])
			if args[0] == keysDataplaneTokens {
				if meshName == "" {
					return notBegun(errors.New("--mesh is needed: the keys of dataplane tokens are those of one mesh"))
				}
				path = "/meshes/" + url.PathEscape(meshName) + "/secrets/" + url.PathEscape(mesh.TokenSigningKey+meshName+"-"+args[1])
			}
			if _, err := callMesh(c, http.MethodDelete, path+"?force="+strconv.FormatBool(force), nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "Key %s of %s is deleted.\n", args[1], args[0])
			return err
		},
	}
	c.Flags().StringVar(&meshName, "mesh", "", "the mesh whose key is meant")
	c.Flags().BoolVar(&force, "force", false, "delete it although it is needed: nodes whose tokens it signed are refused until they have new ones")
	addFlags(c)
	return c
}

// callTimeout bounds a call of the API, maxAnswer its answer.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 8 << 20
)

// callMesh calls the mesh API of the control plane with these settings. What the API
// refuses is an error with its words.
func callMesh(c *cobra.Command, method, path string, body []byte) ([]byte, error) {
	l, err := load(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), callTimeout)
	defer cancel()
	base := meshAddress(&l.Config)
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, notBegun(fmt.Errorf("the control plane does not answer at %s (settings mesh.listen and mesh.port): %w", base, err))
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, refusedBy(resp.StatusCode, answer)
	}
	return answer, nil
}

// meshAddress is where the mesh API of a control plane is.
func meshAddress(c *config.Config) string {
	return "http://" + net.JoinHostPort(loopback(c.Mesh.Listen), strconv.Itoa(c.Mesh.Port))
}

// refusedBy turns an error document into one line.
func refusedBy(status int, answer []byte) error {
	var doc struct {
		Detail     string
		Parameters []struct{ Field, Reason string } `json:"invalid_parameters"`
	}
	_ = json.Unmarshal(answer, &doc) // another body than a document says nothing
	var reasons []string
	for _, p := range doc.Parameters {
		reasons = append(reasons, p.Field+" "+p.Reason)
	}
	text := cmp.Or(strings.Join(reasons, "; "), strings.ReplaceAll(doc.Detail, "?force=true", "--force"), http.StatusText(status))
	return fmt.Errorf("the control plane refuses that (%d): %s", status, text)
}

// printKeys shows keys to people.
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
