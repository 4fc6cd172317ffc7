package meshapi

import (
	"context"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// DryRun says what writes would do; [dryrun.Runner] implements it.
type DryRun interface {
	// Run calls write with a context under which nothing is committed. The error is that of
	// write, or Unavailable if there are too many requests.
	Run(ctx context.Context, write func(context.Context) error) (*dryrun.Answer, error)
}

// tries returns the parameter of writes that can be tried. Without it they are refused.
func (c collection) tries() []httpkit.Parameter {
	if c.api.DryRun == nil {
		return nil
	}
	return []httpkit.Parameter{httpkit.ParamDryRun}
}

// tried returns the schema of the answer of a write that can be tried, or that of others.
func (c collection) tried(can, cannot string) string {
	if c.api.DryRun == nil {
		return cannot
	}
	return can
}

// tryPut answers with what a PUT would do. What would be stored is shown to those who may read it.
func (c collection) tryPut(w http.ResponseWriter, r *http.Request, s *submission, allowed admit.Allowed, err error) {
	var document []byte
	read, _ := c.rights()
	seen := c.api.may(r, read, c.scope(r))
	c.try(w, r, s.operation(), err, func(ctx context.Context) error {
		out, _, err := c.api.Writer.PutDocumentIf(ctx, c.kind, r.PathValue(pathMesh), r.PathValue(pathName), s.spec, allowed)
		if err == nil && seen {
			document, err = model.ConcealDocument(out.Resource)
		}
		return err
	}, func(a *dryrun.Answer) {
		a.Document = document
		if c.api.Policies != nil {
			s.dropped = append(s.dropped, c.api.Policies.Nowhere(r.Context(), c.kind, r.PathValue(pathMesh), s.spec)...)
		}
		if len(s.dropped) > 0 {
			a.Warnings = httpkit.Warnings(w.Header(), s.dropped)
		}
	})
}

// tryDelete answers with what a DELETE would do.
func (c collection) tryDelete(w http.ResponseWriter, r *http.Request, allowed admit.Allowed, err error) {
	c.try(w, r, opDelete, err, func(ctx context.Context) error {
		_, err := c.api.Writer.DeleteDocumentIf(ctx, c.kind, r.PathValue(pathMesh), r.PathValue(pathName), allowed)
		return err
	}, func(*dryrun.Answer) {})
}

// try has a write tried. Errors are answered as those of the write. err is that of the parameter.
func (c collection) try(w http.ResponseWriter, r *http.Request, op operation, err error, write func(context.Context) error, more func(*dryrun.Answer)) {
	if err != nil {
		fail(w, r, opDecode, err)
		return
	}
	a, err := c.api.DryRun.Run(r.Context(), write)
	if err != nil {
		c.failWrite(w, r, op, err)
		return
	}
	more(a)
	reply(w, r, http.StatusOK, a)
}

// describeDryRuns adds the schemas of the answers.
func (a *API) describeDryRuns(out schemas) {
	if a.DryRun == nil {
		return
	}
	out[schemaDryRun] = openapi.For[dryrun.Answer]()
	out[schemaWritten] = anyOf(schemaStored, schemaDryRun)
}
