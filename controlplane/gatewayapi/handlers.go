package gatewayapi

import (
	"context"
	"maps"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// write is an operation of the gate that takes a body.
type write func(context.Context, admit.Address, admit.Input) (admit.Outcome, error)

func (p place) create(w http.ResponseWriter, r *http.Request) {
	p.write(w, r, http.StatusCreated, false, p.api.Gate.Create)
}

func (p place) put(w http.ResponseWriter, r *http.Request) {
	p.write(w, r, http.StatusOK, false, p.api.Gate.Replace)
}

func (p place) patch(w http.ResponseWriter, r *http.Request) {
	p.write(w, r, http.StatusOK, !p.nested && !p.collection.PlainMissing, p.api.Gate.Patch)
}

// write decodes the body, runs the operation and answers with the entity. If detailed is set,
// the error document answers for a missing resource.
func (p place) write(w http.ResponseWriter, r *http.Request, status int, detailed bool, op write) {
	body, err := httpkit.ReadBody(r)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	how, err := strictnessOf(r)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	if err := refused(body, how); err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	address := p.address(r)
	address.Twin = p.twin(r, address, body.Values)
	c := call{collection: p.collection, given: body.Values, key: address.Key, detailed: detailed}
	in := admit.Input{Values: body.Values, Text: body.Text, Loose: how != httpkit.Strict}
	if dry, err := httpkit.WantsDryRun(r); err != nil || dry {
		p.tryWrite(w, r, c, how, err, func(ctx context.Context) ([]fault.Violation, error) {
			out, err := op(ctx, address, in)
			return append(body.Repeated, out.Dropped...), err
		})
		return
	}
	out, err := op(r.Context(), address, in)
	if out.Resource != nil {
		httpkit.EntryOf(r.Context()).Name = out.Resource.Name
		revision(w, r, out.Commit)
	}
	if err != nil {
		p.api.fail(w, r, err, c)
		return
	}
	entity, err := out.Resource.Show(p.api.Now())
	if err != nil {
		p.api.fail(w, r, err, c)
		return
	}
	maps.Copy(entity, out.Inlined)
	if dropped := append(body.Repeated, out.Dropped...); how == httpkit.Warn && len(dropped) > 0 {
		entity[fieldWarnings] = httpkit.Warnings(w.Header(), dropped)
	}
	reply(w, r, status, entity)
}

// refused returns the error for a body in which members are given twice. Nobody but the
// decoder knows which of them counts.
func refused(body httpkit.Body, how httpkit.Strictness) error {
	if how != httpkit.Strict {
		return nil
	}
	return fault.Violated(body.Repeated)
}

// fieldWarnings is a member of the answer to a write that dropped fields, beside those of the
// entity.
const fieldWarnings = "warnings"

// strictnessOf reads how the request wants unknown fields to be handled.
func strictnessOf(r *http.Request) (httpkit.Strictness, error) {
	query, err := httpkit.Query(r)
	if err != nil {
		return "", err
	}
	how, ok := httpkit.ParseStrictness(query.Get(httpkit.ArgFieldValidation))
	if !ok {
		return "", &problem{http.StatusBadRequest, errorBody{
			Code: 11, Name: "invalid options", Message: "invalid option (" + httpkit.ArgFieldValidation + ": " + httpkit.TextFieldValidation + ")",
			Options: map[string]any{httpkit.ArgFieldValidation: httpkit.TextFieldValidation},
		}}
	}
	return how, nil
}

func (p place) get(w http.ResponseWriter, r *http.Request) {
	res, err := p.read(r)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	entities, lacking, err := p.api.entities(r.Context(), []*model.Resource{res})
	if err == nil && len(lacking) > 0 {
		err = lacking.err()
	}
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	reply(w, r, http.StatusOK, entities[0])
}

// entities shows resources of one kind, including those parts of others that belong to the
// entities. Parts that cannot be decoded are left out and returned.
func (a *API) entities(ctx context.Context, list []*model.Resource) (out []map[string]any, lacking unreadable, err error) {
	out = make([]map[string]any, len(list))
	for i, res := range list {
		if out[i], err = res.Show(a.Now()); err != nil {
			return nil, nil, err
		}
	}
	if len(list) == 0 || !admit.HasInlined(list[0].Kind) {
		return out, nil, nil
	}
	err = a.Store.View(ctx, func(r store.Reader) error {
		for i, res := range list {
			missed, err := a.Gate.Inlined(r, res, out[i])
			if err != nil {
				return err
			}
			lacking = append(lacking, missed...)
		}
		return nil
	})
	return out, lacking, err
}

func (p place) read(r *http.Request) (res *model.Resource, err error) {
	err = p.api.Store.View(r.Context(), func(reader store.Reader) error {
		res, err = admit.Lookup(reader, p.address(r))
		return err
	})
	if err == nil {
		httpkit.EntryOf(r.Context()).Name = res.Name
	}
	return res, err
}

// delete answers 204 for a resource that does not exist, except below an owner.
func (p place) delete(w http.ResponseWriter, r *http.Request) {
	if dry, err := httpkit.WantsDryRun(r); err != nil || dry {
		p.tryDelete(w, r, err)
		return
	}
	commit, err := p.api.Gate.Delete(r.Context(), p.address(r))
	if fault.Is(err, fault.NotFound) && !p.nested {
		commit, err = store.Commit{Revision: p.api.Store.Revision()}, nil
	}
	if err == nil || len(commit.Changes) > 0 {
		revision(w, r, commit)
	}
	for _, c := range commit.Changes {
		// Changes of dependants come first, so the last match is the requested resource.
		if c.Op == store.Deleted && c.Old.Kind == p.collection.Kind {
			httpkit.EntryOf(r.Context()).Name = c.Old.Name
		}
	}
	if err != nil {
		p.api.fail(w, r, err, call{collection: p.collection})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuseDelete refuses to delete the target of a reference through its referrer.
func (p place) refuseDelete(w http.ResponseWriter, r *http.Request) {
	if _, err := p.read(r); err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	w.Header().Set("Allow", "GET, HEAD, OPTIONS, PATCH, PUT")
	httpkit.MethodNotAllowed(w, r)
}
