package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/inspect"
)

// closed is what is known about the policies of meshes that refuse everybody.
type closed struct {
	list []inspect.Warned
	// untold says why nothing is known. It is empty if the API has no meshes.
	untold string
}

// refusing asks which policies refuse everybody. Only the mesh API knows. Policies are not
// wrong when they do what they say, so a status that cannot tell this is still a status.
func (r *roster) refusing(ctx context.Context) (out closed) {
	meshes, err := client.Read[struct {
		Name string `json:"name"`
	}](ctx, r.api, "/meshes", nil, true)
	for _, m := range meshes.Items {
		var warned inspect.WarnedList
		if err == nil {
			err = unlessGone(r.api.Get(ctx, "/meshes/"+url.PathEscape(m.Name)+"/warnings", nil, &warned))
		}
		for _, w := range warned.Items {
			if len(w.Refusing) > 0 {
				out.list = append(out.list, w)
			}
		}
	}
	if err = unlessGone(err); err != nil && ctx.Err() == nil {
		out.untold = err.Error()
	}
	return out
}

// unlessGone returns an error unless it says that there is no such path: a mesh that was
// deleted meanwhile, or an API without meshes.
func unlessGone(err error) error {
	if refused, ok := errors.AsType[*client.Refusal](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// printRefusing names the policies that refuse everybody, in the words of the warnings of their
// mesh. It prints nothing if there are none.
func printRefusing(out io.Writer, c closed) error {
	if c.untold != "" {
		_, err := fmt.Fprintln(out, "\nIt is not known which policies refuse everybody:", client.Plain(c.untold))
		return err
	}
	if len(c.list) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "MESH\tPOLICY\tREFUSES EVERYBODY AT")
	for i := range c.list {
		p := &c.list[i]
		where := p.Refusing[0]
		if more := len(p.Refusing) - 1; more > 0 {
			where += fmt.Sprintf(" (and %d more)", more)
		}
		policy := "-"
		if p.Name != "" {
			policy = p.Type + " " + p.Name
		}
		printRow(w, p.Mesh, policy, where)
	}
	return w.Flush()
}
