package gatewayapi

import (
	"context"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// DryRun says what writes would do; [dryrun.Runner] implements it.
type DryRun interface {
	// Run calls write with a context under which nothing is committed. The error is that of
	// write, or Unavailable if there are too many requests.
	Run(ctx context.Context, write func(context.Context) error) (*dryrun.Answer, error)
}

// tries returns the parameter of writes that can be tried. Without it they are refused.
func (a *API) tries() []httpkit.Parameter {
	if a.DryRun == nil {
		return nil
	}
	return []httpkit.Parameter{httpkit.ParamDryRun}
}

// tried adds to the contract of a write that it can be tried. status is that of its success.
func (p place) tried(e httpkit.Endpoint, status int) httpkit.Endpoint {
	if p.api.DryRun == nil {
		return e
	}
	e.Contract.Query = append(e.Contract.Query, p.api.tries()...)
	if status == http.StatusOK {
		e.Contract.Answers[status] += suffixTried
	} else {
		e.Contract.Answers[http.StatusOK] = schemaDryRun
	}
	return e
}

// tryWrite answers with what a write with a body would do. write returns what it drops of the
// body. err is that of the parameter.
func (p place) tryWrite(
	w http.ResponseWriter, r *http.Request, c call, how httpkit.Strictness, err error, write func(context.Context) ([]fault.Violation, error),
) {
	if err != nil {
		p.api.fail(w, r, badOption(err), c)
		return
	}
	var dropped []fault.Violation
	a, err := p.api.DryRun.Run(r.Context(), func(ctx context.Context) (err error) {
		dropped, err = write(ctx)
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, c)
		return
	}
	if how == httpkit.Warn && len(dropped) > 0 {
		a.Warnings = httpkit.Warnings(w.Header(), dropped)
	}
	reply(w, r, http.StatusOK, a)
}

// tryDelete answers with what a DELETE would do. That of something that does not exist would do
// nothing, except below an owner.
func (p place) tryDelete(w http.ResponseWriter, r *http.Request, err error) {
	c := call{collection: p.collection}
	if err != nil {
		p.api.fail(w, r, badOption(err), c)
		return
	}
	a, err := p.api.DryRun.Run(r.Context(), func(ctx context.Context) error {
		_, err := p.api.Gate.Delete(ctx, p.address(r))
		if fault.Is(err, fault.NotFound) && !p.nested {
			return nil
		}
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, c)
		return
	}
	reply(w, r, http.StatusOK, a)
}

// describeDryRuns adds the schemas of the answers.
func (a *API) describeDryRuns(out schemas) {
	if a.DryRun == nil {
		return
	}
	out[schemaDryRun] = openapi.For[dryrun.Answer]()
	for _, c := range a.Collections {
		if !c.Kind.ReadOnly {
			out[c.Kind.Name+suffixTried] = &openapi.Schema{AnyOf: []*openapi.Schema{openapi.To(c.Kind.Name), openapi.To(schemaDryRun)}}
		}
	}
}
