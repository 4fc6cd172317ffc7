package meshapi

import (
	"errors"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// submission is the valid content of a PUT.
type submission struct {
	meta model.DocumentMeta
	spec any
	// create is set if no resource of that name existed when the request arrived.
	create bool
	// dropped lists the members that the client is warned about: unknown ones, those without
	// effect, and selectors of a policy that select nothing.
	dropped []fault.Violation
}

// operation returns the operation for the store.
func (s *submission) operation() operation {
	if s.create {
		return opCreate
	}
	return opUpdate
}

// put creates or replaces a resource. The package comment has the order of the checks.
func (c collection) put(w http.ResponseWriter, r *http.Request) {
	s, err := c.submission(w, r)
	if err != nil {
		answer(w, r, opProcess, err)
		return
	}
	allowed, err := c.allowed(r, s.spec)
	if err != nil {
		fail(w, r, s.operation(), err)
		return
	}
	if dry, err := httpkit.WantsDryRun(r); err != nil || dry {
		c.tryPut(w, r, s, allowed, err)
		return
	}
	out, created, err := c.api.Writer.PutDocumentIf(r.Context(), c.kind, r.PathValue(pathMesh), r.PathValue(pathName), s.spec, allowed)
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
	if c.api.Policies != nil {
		s.dropped = append(s.dropped, c.api.Policies.Nowhere(r.Context(), c.kind, r.PathValue(pathMesh), s.spec)...)
	}
	stored(w, r, status, s.dropped)
}

// failWrite answers with an error of a write. The mesh may have been deleted since it was
// looked up.
func (c collection) failWrite(w http.ResponseWriter, r *http.Request, op operation, err error) {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if missing, ok := e.Subject.(admit.Missing); ok && missing.Kind != c.kind {
			op = opMesh
		}
	}
	fail(w, r, op, err)
}

// submission reads a body and makes all checks that do not need other resources.
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
	read, err := model.ReadDocument(c.kind, raw)
	if err != nil {
		return nil, failed(opDecode, err)
	}
	s.meta, s.spec = read.Meta, read.Spec
	return s, failed(opProcess, c.check(r, s, read.Unknown))
}

// check returns all violations of a document's spec or, if there are none, those of its names
// and labels. It notes what the client is warned about.
func (c collection) check(r *http.Request, s *submission, unknown []fault.Violation) error {
	how, err := strictnessOf(r)
	if err != nil {
		return err
	}
	var wrong []fault.Violation
	switch how {
	case httpkit.Strict:
		wrong = unknown
	case httpkit.Warn:
		s.dropped = unknown
	case httpkit.Ignore:
	}
	if err := c.api.Writer.CheckDocument(c.kind, s.spec); err != nil {
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || len(e.Violations) == 0 {
			return err
		}
		wrong = append(wrong, e.Violations...)
	}
	if idle := c.kind.Document.Idle; idle != nil {
		s.dropped = append(s.dropped, idle(s.spec)...)
	}
	if len(wrong) == 0 {
		wrong = c.checkMeta(s, r.PathValue(pathMesh), r.PathValue(pathName))
	}
	return fault.Violated(wrong)
}
