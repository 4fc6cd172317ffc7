package main

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	// changesTime bounds one request of `meshgate changes`.
	changesTime = 30 * time.Second
	// maxShown is how many members a line of the table names.
	maxShown = 5
)

// changesCommand shows what a running control plane knows of who changed what.
func changesCommand() *cobra.Command {
	query := url.Values{}
	asked := map[string]*string{}
	var output string
	c := &cobra.Command{
		Use:   "changes",
		Short: "Show who changed what last (of a running control plane, by its mesh API)",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := load(c)
			if err != nil {
				return err
			}
			for name, value := range asked {
				if *value != "" {
					query.Set(name, *value)
				}
			}
			return showChanges(c.Context(), &l.Config, query, output, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	for name, help := range map[string]string{
		changes.ParamSince: "only what was committed after this revision, the oldest first; without it the newest come first",
		changes.ParamKind:  "only resources of this kind, such as route or TrafficRoute",
		changes.ParamScope: "only what is in this mesh or control plane",
		changes.ParamActor: "only changes of this actor",
		changes.ParamSize:  "how many (without --since); 1 to 1000",
	} {
		asked[name] = c.Flags().String(name, "", help)
	}
	*asked[changes.ParamSize] = "20"
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	addFlags(c, "mesh.listen", "mesh.port")
	return c
}

// changePage is a page of GET /changes.
type changePage struct {
	Items  []changes.Shown `json:"items"`
	Next   string          `json:"next"`
	Oldest uint64          `json:"oldest"`
}

// showChanges prints one page or, since a revision, all of them. What is lost is noted
// apart, so that it is in nobody's JSON.
func showChanges(ctx context.Context, c *config.Config, query url.Values, output string, w, notes io.Writer) error {
	if output != "table" && output != "json" {
		return fault.New(fault.Invalid, "-o must be table or json")
	}
	following := query.Has(changes.ParamSince)
	var all []changes.Shown
	var oldest uint64
	for {
		page, err := changesPage(ctx, c, query)
		if err != nil {
			return err
		}
		all, oldest = append(all, page.Items...), page.Oldest
		next, err := url.Parse(page.Next)
		if err != nil || page.Next == "" || !following {
			break
		}
		query = next.Query()
	}
	if since, err := strconv.ParseUint(query.Get(changes.ParamSince), 10, 64); err == nil && since < oldest {
		_, _ = fmt.Fprintf(notes, "meshgate: changes after revision %d up to %d are no longer kept\n", since, oldest)
	}
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for i := range all {
			if err := e.Encode(&all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return changesTable(all, w)
}

// changesPage asks the control plane.
func changesPage(ctx context.Context, c *config.Config, query url.Values) (p changePage, err error) {
	ctx, cancel := context.WithTimeout(ctx, changesTime)
	defer cancel()
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(c.Mesh.Listen, strconv.Itoa(c.Mesh.Port)), Path: "/changes", RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return p, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return p, fmt.Errorf("the mesh API does not answer at %s (settings mesh.listen and mesh.port): %w", u.Host, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return p, err
	}
	if resp.StatusCode != http.StatusOK {
		return p, refusedChanges(resp.Status, raw)
	}
	return p, json.Unmarshal(raw, &p)
}

// refusedChanges is the error of an answer that has no page.
func refusedChanges(status string, raw []byte) error {
	var doc struct {
		Detail     string `json:"detail"`
		Parameters []struct {
			Field  string `json:"field"`
			Reason string `json:"reason"`
		} `json:"invalid_parameters"`
	}
	if json.Unmarshal(raw, &doc) != nil || doc.Detail == "" {
		return fmt.Errorf("the mesh API answers %s", status)
	}
	var texts []string
	for _, p := range doc.Parameters {
		texts = append(texts, p.Field+": "+p.Reason)
	}
	if texts == nil {
		texts = []string{doc.Detail}
	}
	return fault.New(fault.Invalid, "%s", strings.Join(texts, "; "))
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
			s.Revision, at, s.Actor.Kind, plain(s.Actor.Name), s.Action, s.Kind, plain(s.Scope), plain(name), changed(s, titles))
	}
	return t.Flush()
}

// changed says in one line what differs, or with what a resource came or went. titles
// are those that are known of others.
func changed(s *changes.Shown, titles map[string]string) string {
	if s.Unreadable {
		return "(cannot be read)"
	}
	if s.Cause != nil {
		return "with " + s.Cause.Kind + " " + plain(cmp.Or(titles[s.Cause.Kind+" "+s.Cause.Name], s.Cause.Name))
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
			parts = append(parts, plain(m.Path)+" (secret)")
		default:
			parts = append(parts, plain(m.Path)+" "+leaf(m.Old)+" -> "+leaf(m.New))
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
	return plain(string(raw))
}
