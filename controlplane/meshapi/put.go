package meshapi

import (
	"errors"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// submission is what a PUT wants to store, once it is valid by itself.
type submission struct {
	meta model.DocumentMeta
	spec any
	// create says that nothing of that name was stored when the request came.
	create bool
}

// operation is what the store is asked to do.
func (s *submission) operation() operation {
	if s.create {
		return opCreate
	}
	return opUpdate
}

// put creates or replaces a resource; see the package comment for the order in
// which a request is judged.
func (c collection) put(w http.ResponseWriter, r *http.Request) {
	s, err := c.submission(w, r)
	if err != nil {
		answer(w, r, opProcess, err)
		return
	}
	out, created, err := c.api.Writer.PutDocument(r.Context(), c.kind, r.PathValue(pathMesh), r.PathValue(pathName), s.spec)
	if err == nil || len(out.Commit.Changes) > 0 {
		announce(w, r, out.Commit)
	}
	if err != nil {
		c.failWrite(w, r, s.operation(), err)
		return
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	empty(w, status)
}

// failWrite answers with an error of a write, in which the mesh may have gone
// since it was looked up.
func (c collection) failWrite(w http.ResponseWriter, r *http.Request, op operation, err error) {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if missing, ok := e.Subject.(admit.Missing); ok && missing.Kind != c.kind {
			op = opMesh
		}
	}
	fail(w, r, op, err)
}

// submission reads a body and checks all that can be checked without other
// resources.
func (c collection) submission(w http.ResponseWriter, r *http.Request) (*submission, error) {
	s := &submission{}
	scope, name := r.PathValue(pathMesh), r.PathValue(pathName)
	err := c.api.Store.View(r.Context(), func(reader store.Reader) error {
		if err := meshExists(reader, scope); err != nil {
			return err
		}
		_, err := reader.Get(c.kind, scope, name)
		s.create = fault.Is(err, fault.NotFound)
		if s.create {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	raw, err := body(w, r)
	if err != nil {
		return nil, failed(opDecode, err)
	}
	if s.meta, s.spec, err = model.DecodeDocument(c.kind, raw); err != nil {
		return nil, failed(opDecode, err)
	}
	if err := c.api.Writer.CheckDocument(c.kind, s.spec); err != nil {
		return nil, failed(opProcess, err)
	}
	return s, failed(opProcess, fault.Violated(c.checkMeta(s, scope, name)))
}
