package operator

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
)

// TokenCommand issues tokens: of a running control plane on this machine, or without one.
func TokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Issue personal access tokens, or others with a key of your own",
		Long: `Issue tokens. create, list and revoke are about personal access tokens of the control plane that
runs on this machine; they need no token, but the rights to its state directory.

The other commands issue tokens with a key of your own, without a control plane. Control planes
accept them if tokens.publicKeys of their settings names the public half of the key and its id
(docs/operations/access.md). A running control plane issues such tokens at POST /tokens/... .`,
		Example: `  meshgate token create --name ci --role admin
  meshgate token user --name bob --valid-for 24h --kid ci --signing-key-file ci.pem`,
		Args: cobra.NoArgs, // a word that is none of these commands must not look like success
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(accessTokenCommands()...)
	c.AddCommand(tokenDataplaneCommand(), tokenUserCommand(), tokenZoneCommand())
	return c
}

// offline are the flags of every command that issues a token.
type offline struct{ kid, file string }

// issuing gives a command the flags of the key, and prints the token that issue returns.
func issuing(c *cobra.Command, issue func(k *identity.OfflineKey, now time.Time) (string, error)) *cobra.Command {
	o := &offline{}
	c.Flags().StringVar(&o.file, "signing-key-file", "", "PEM file of the RSA key that signs")
	c.Flags().StringVar(&o.kid, "kid", "", "id of the key, by which control planes find its public half; no number")
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		token, err := o.issue(issue)
		if err != nil {
			return fault.NotBegun(err)
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), token)
		return err
	}
	return c
}

func (o *offline) issue(issue func(k *identity.OfflineKey, now time.Time) (string, error)) (string, error) {
	if o.file == "" || o.kid == "" {
		return "", errors.New("--signing-key-file and --kid are needed")
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return "", err
	}
	key, err := identity.NewOfflineKey(o.kid, text)
	if err != nil {
		return "", err
	}
	return issue(key, time.Now())
}

func tokenDataplaneCommand() *cobra.Command {
	var r identity.DataplaneTokenRequest
	var tags []string
	c := issuing(&cobra.Command{
		Use:     "dataplane",
		Short:   "Issue the token of a proxy",
		Example: `  meshgate token dataplane --mesh default --name web --kid ci --signing-key-file ci.pem`,
	}, func(k *identity.OfflineKey, now time.Time) (_ string, err error) {
		if r.Tags, err = tagsOf(tags); err != nil {
			return "", err
		}
		return k.Dataplane(r, now)
	})
	c.Flags().StringVar(&r.Mesh, "mesh", "", "mesh of the proxy")
	c.Flags().StringVar(&r.Name, "name", "", "name of the dataplane; empty: any of the mesh")
	c.Flags().StringVar(&r.Type, "type", "", "dataplane, ingress or egress; empty: dataplane")
	c.Flags().StringArrayVar(&tags, "tag", nil, "key=value,value that the dataplane must have; may be given more than once")
	c.Flags().StringVar(&r.ValidFor, "valid-for", "", "duration such as 720h; empty: ten years")
	return c
}

// tagsOf reads tags. A tag without a value would not restrict the token.
func tagsOf(list []string) (map[string][]string, error) {
	tags := map[string][]string{}
	for _, tag := range list {
		key, values, ok := strings.Cut(tag, "=")
		if !ok || key == "" || values == "" {
			return nil, fmt.Errorf("--tag %q is not key=value", tag)
		}
		tags[key] = append(tags[key], strings.Split(values, ",")...)
	}
	return tags, nil
}

func tokenUserCommand() *cobra.Command {
	var r identity.UserTokenRequest
	c := issuing(&cobra.Command{
		Use:     "user",
		Short:   "Issue the token of a user",
		Example: `  meshgate token user --name bob --group team-a --valid-for 24h --kid ci --signing-key-file ci.pem`,
	}, func(k *identity.OfflineKey, now time.Time) (string, error) { return k.User(r, now) })
	c.Flags().StringVar(&r.Name, "name", "", "name of the user")
	c.Flags().StringSliceVar(&r.Groups, "group", nil, "group of the user; may be given more than once")
	c.Flags().StringVar(&r.ValidFor, "valid-for", "", "duration such as 24h; must be given")
	return c
}

func tokenZoneCommand() *cobra.Command {
	r := identity.ZoneTokenRequest{Scope: []string{}}
	c := issuing(&cobra.Command{
		Use:     "zone",
		Short:   "Issue the token of the proxies between zones",
		Example: `  meshgate token zone --zone east --scope ingress --kid ci --signing-key-file ci.pem`,
	}, func(k *identity.OfflineKey, now time.Time) (string, error) { return k.Zone(r, now) })
	c.Flags().StringVar(&r.Zone, "zone", "", "name of the zone")
	c.Flags().StringSliceVar(&r.Scope, "scope", nil, "ingress or egress; may be given more than once")
	c.Flags().StringVar(&r.ValidFor, "valid-for", "", "duration such as 720h; empty: ten years")
	return c
}
