package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxShown is the number of members that a line of the table names.
const maxShown = 5

// ChangesCommand shows what a running control plane knows about who changed what.
func ChangesCommand() *cobra.Command {
	asked := map[string]*string{}
	var output *string
	var api *apiFlags
	var tokens *bool
	c := &cobra.Command{
		Use:   "changes",
		Short: "Show who changed what last",
		Long: `Show who changed what last, the newest first: 20 changes, or --size. With --since, show
everything after a revision that still worked, the oldest first. Access tokens that were
created, changed or deleted are left out unless --tokens or --kind oauth2_token asks for them.`,
		Example: `  meshgate changes --since 4711 --kind route`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(*output); err != nil {
				return err
			}
			query := url.Values{}
			for name, value := range asked {
				if *value != "" {
					query.Set(name, *value)
				}
			}
			if *tokens {
				query.Set(changes.ParamTokens, "true")
			}
			return showChanges(c, api, query, *output)
		},
	}
	for name, help := range map[string]string{
		changes.ParamSince: "only what was committed after this revision, the oldest first; without it the newest come first",
		changes.ParamKind:  "only resources of this kind, such as route or TrafficRoute; !route leaves that kind out",
		changes.ParamScope: "only what is in this mesh or control plane",
		changes.ParamActor: "only changes of this actor",
		changes.ParamSize:  "how many (without --since); 1 to 1000",
	} {
		asked[name] = c.Flags().String(name, "", help)
	}
	*asked[changes.ParamSize] = "20"
	tokens = c.Flags().Bool(changes.ParamTokens, false, "access tokens, too")
	output, api = addOutputFlag(c), addAPIFlags(c)
	return c
}

// showChanges prints one page or, since a revision, all pages. A note about lost changes
// goes to standard error, so that it is not in the JSON.
func showChanges(c *cobra.Command, f *apiFlags, query url.Values, output string) error {
	api, err := f.open(c)
	if err != nil {
		return err
	}
	defer api.Close()
	list, err := client.Read[changes.Shown](c.Context(), api, "/changes", query, query.Has(changes.ParamSince))
	if err != nil {
		return err
	}
	if since, err := strconv.ParseUint(query.Get(changes.ParamSince), 10, 64); err == nil && since < list.Oldest {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "meshgate: changes after revision %d up to %d are no longer kept\n", since, list.Oldest)
	}
	if output == asTable {
		if len(list.Items) == 0 {
			// Not in the table, because readers may count its lines.
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate: no change matches"+askedFor(query))
		}
		return changesTable(list.Items, c.OutOrStdout())
	}
	for i := range list.Items {
		if err := printAll(c.OutOrStdout(), &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// askedFor repeats the flags that select changes, so that a mistyped name is noticed.
func askedFor(query url.Values) string {
	var out strings.Builder
	for _, name := range []string{changes.ParamSince, changes.ParamKind, changes.ParamScope, changes.ParamActor} {
		if value := query.Get(name); value != "" {
			_, _ = fmt.Fprintf(&out, " --%s %s", name, client.Plain(value))
		}
	}
	return out.String()
}

func changesTable(all []changes.Shown, w io.Writer) error {
	titles := map[string]string{}
	for i := range all {
		if s := &all[i]; s.Title != "" {
			titles[s.Kind+" "+s.Name] = s.Title
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "REVISION\tTIME\tACTOR\tACTION\tKIND\tSCOPE\tNAME\tCHANGED")
	for i := range all {
		s := &all[i]
		at := s.Time
		if moment, err := time.Parse(time.RFC3339Nano, at); err == nil {
			at = moment.UTC().Format(time.DateTime)
		}
		name := s.Name
		switch {
		case s.Count > 0:
			name = fmt.Sprintf("and %d more", s.Count)
		case s.Title != "":
			name = s.Title
		}
		_, _ = fmt.Fprintf(t, "%d\t%s\t%s:%s\t%s\t%s\t%s\t%s\t%s\n",
			s.Revision, at, s.Actor.Kind, client.Plain(s.Actor.Name), s.Action, s.Kind, client.Plain(s.Scope), client.Plain(name), changed(s, titles))
	}
	return t.Flush()
}

// changed describes in one line what differs, or with which resource this one was created or
// deleted. titles are the known titles of other resources.
func changed(s *changes.Shown, titles map[string]string) string {
	if s.Unreadable {
		return "(cannot be read)"
	}
	if s.Cause != nil {
		return "with " + s.Cause.Kind + " " + client.Plain(cmp.Or(titles[s.Cause.Kind+" "+s.Cause.Name], s.Cause.Name))
	}
	if s.Action != store.Updated {
		return ""
	}
	var parts []string
	for i, m := range s.Members {
		if i == maxShown {
			break
		}
		switch {
		case m.Secret:
			parts = append(parts, client.Plain(m.Path)+" (secret)")
		default:
			parts = append(parts, client.Plain(m.Path)+" "+leaf(m.Old)+" -> "+leaf(m.New))
		}
	}
	if more := len(s.Members) + s.More - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

func leaf(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	return client.Plain(string(raw))
}
