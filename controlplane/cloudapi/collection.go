package cloudapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Collection is one kind in this API.
type Collection struct {
	Kind *model.Kind
	// Title begins sentences about a resource.
	Title string
	// Missing says that there is none; the title of the status if it is empty.
	Missing string
	// Created is the status of an answer to a creation.
	Created int
	Paging  paging
	// Global says that the resources exist once, and not in each region.
	Global bool
	// Auth is what all endpoints need; empty for [access.Read] and [access.Write].
	Auth access.Right
	// Fixed resources are not changed after their creation.
	Fixed bool
	// Issue, if set, makes what callers cannot write: hidden members of a new resource, and members
	// that only the answer to its creation shows.
	Issue func() (hidden, shown map[string]any)
	// Resolve, if set, replaces what a creation gives by what is stored of it.
	Resolve func(r store.Reader, values map[string]any) error
	// Filters are members that filters name.
	Filters []string
	// Spellings list, of members whose values have several spellings, all those of a value. To filters they are
	// one value.
	Spellings map[string]func(text string) []string
	// Sorts are members by which lists are sorted. Labelled lists are selected by labels.
	Sorts    []string
	Labelled bool
	// At, if set, says which resource a path names; that of its id otherwise.
	At func(*http.Request) admit.Address
	// Complete, if set, adds what is not stored to a document.
	Complete func(a *API, res *model.Resource, doc map[string]any) error
	// Guard, if set, says in the transaction of a change or deletion whether the caller may do it. given
	// are the members of a change; nil for a deletion.
	Guard func(a *API, r *http.Request, given map[string]any, reader store.Reader, res *model.Resource) error
	// Acceptable, if set, refuses what a creation or a change gives although the schema accepts it.
	Acceptable func(a *API, given map[string]any) error
	// Removable, if set, refuses a deletion in its transaction, and says what is in the way.
	Removable func(reader store.Reader, res *model.Resource) error
	// Sentences are what clients know of some mistakes, in place of the usual title and detail.
	Sentences map[mistaken]sentence
}

// pathID is the name of the id in a path.
const pathID = "id"

// maxBody bounds a request body.
const maxBody = 1 << 20

// endpoints lists the endpoints of a collection.
func (a *API) endpoints(c *Collection) []httpkit.Endpoint {
	list := base + "/" + c.Kind.Path
	item := list + "/{" + pathID + "}"
	s := served{a, c}
	read, write := cmp.Or(c.Auth, access.Read), cmp.Or(c.Auth, access.Write)
	out := []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: list, Auth: read, Summary: "List " + c.Kind.Path, Handler: s.list}, "", http.StatusOK, c.Kind.Name+suffixPage, c.parameters()...),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: list, Auth: write, Summary: "Create a " + c.Kind.Name, Handler: s.create}, c.Kind.Name+suffixRequest, c.Created, c.Kind.Name),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item, Auth: read, Summary: "Read a " + c.Kind.Name, Handler: s.get}, "", http.StatusOK, c.Kind.Name),
		does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: item, Auth: write, Summary: "Delete a " + c.Kind.Name, Handler: s.remove}, "", http.StatusNoContent, ""),
	}
	if !c.Fixed {
		out = append(out, does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: item, Auth: write, Summary: "Change a " + c.Kind.Name, Handler: s.patch}, c.Kind.Name+suffixChange, http.StatusOK, c.Kind.Name))
	}
	for i := range out {
		out[i] = out[i].About(c.Kind.Name)
	}
	return out
}

// served is a collection in an API.
type served struct {
	api *API
	*Collection
}

func (s served) address(r *http.Request) admit.Address {
	if s.At != nil {
		return s.At(r)
	}
	return admit.Address{Kind: s.Kind, Key: strings.ToLower(r.PathValue(pathID))}
}

func (s served) create(w http.ResponseWriter, r *http.Request) {
	var hidden, shown map[string]any
	if s.Issue != nil {
		hidden, shown = s.Issue()
	}
	s.write(w, r, s.Created, shown, func(ctx context.Context, a admit.Address, in admit.Input) (admit.Outcome, error) {
		in.Hidden = hidden
		if s.Resolve != nil {
			if in.Text {
				in.Values, in.Text = s.Kind.Schema.TypeText(in.Values, nil), false
			}
			if err := s.api.Store.View(ctx, func(reader store.Reader) error { return s.Resolve(reader, in.Values) }); err != nil {
				return admit.Outcome{}, err
			}
		}
		return s.api.Gate.Create(ctx, a, in)
	})
}

func (s served) patch(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusOK, nil, func(ctx context.Context, a admit.Address, in admit.Input) (admit.Outcome, error) {
		return s.api.Gate.PatchIf(ctx, a, in, s.guard(r, in.Values))
	})
}

// guard is the condition of a change or deletion.
func (s served) guard(r *http.Request, given map[string]any) admit.Condition {
	return func(reader store.Reader, res *model.Resource) error {
		if s.Guard == nil {
			return nil
		}
		return s.Guard(s.api, r, given, reader, res)
	}
}

// write decodes the body, runs the operation and answers with the resource, and beside it with what
// only this answer shows. What does not exist or may not be changed is said before the body is looked at.
func (s served) write(w http.ResponseWriter, r *http.Request, status int, once map[string]any, op func(context.Context, admit.Address, admit.Input) (admit.Outcome, error)) {
	if r.Method == http.MethodPatch {
		if _, err := s.readIf(r, s.guard(r, nil)); err != nil {
			s.api.fail(w, r, err, s.Collection)
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	body, err := httpkit.ReadBody(r)
	if err == nil && len(body.Repeated) > 0 {
		err = fault.Violated(body.Repeated)
	}
	if err == nil {
		err = s.foreignMembers(body.Values)
	}
	var out admit.Outcome
	if err == nil {
		in := admit.Input{Values: body.Values, Text: body.Text}
		if s.Acceptable != nil {
			in.Accept = func(given map[string]any) error { return s.Acceptable(s.api, given) }
		}
		out, err = op(r.Context(), s.address(r), in)
	}
	if out.Resource != nil {
		httpkit.EntryOf(r.Context()).Name = out.Resource.Name
	}
	if fault.Is(err, fault.Invalid) {
		err = s.refusal(err, body.Values)
	}
	if err != nil {
		s.api.fail(w, r, err, s.Collection)
		return
	}
	s.show(w, r, status, out.Resource, once)
}

// foreignMembers refuses members that the resource has and that nobody may write, as its id.
func (s served) foreignMembers(given map[string]any) error {
	var vs []fault.Violation
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if f := s.Kind.Schema.Field(name); f != nil && f.Meta {
			vs = append(vs, fault.Violation{Path: name, Message: "property " + name + " should not exist"})
		}
	}
	return fault.Violated(vs)
}

func (s served) get(w http.ResponseWriter, r *http.Request) {
	res, err := s.read(r)
	if err != nil {
		s.api.fail(w, r, err, s.Collection)
		return
	}
	s.show(w, r, http.StatusOK, res, nil)
}

// read returns the resource that a path names.
func (s served) read(r *http.Request) (*model.Resource, error) { return s.readIf(r, nil) }

// readIf is read under a condition.
func (s served) readIf(r *http.Request, may admit.Condition) (res *model.Resource, err error) {
	err = s.api.Store.View(r.Context(), func(reader store.Reader) error {
		res, err = admit.Lookup(reader, s.address(r))
		if err == nil && may != nil {
			err = may(reader, res)
		}
		return err
	})
	if err == nil {
		httpkit.EntryOf(r.Context()).Name = res.Name
	}
	return res, err
}

func (s served) remove(w http.ResponseWriter, r *http.Request) {
	may := func(reader store.Reader, res *model.Resource) error {
		err := s.guard(r, nil)(reader, res)
		if err == nil && s.Removable != nil {
			err = s.Removable(reader, res)
		}
		return err
	}
	if _, err := s.api.Gate.DeleteIf(r.Context(), s.address(r), may); err != nil {
		s.api.fail(w, r, err, s.Collection)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s served) show(w http.ResponseWriter, r *http.Request, status int, res *model.Resource, once map[string]any) {
	doc, err := s.document(res)
	if err == nil {
		maps.Copy(doc, once)
		err = httpkit.WriteJSON(w, status, doc)
	}
	if err != nil {
		s.api.fail(w, r, err, s.Collection)
	}
}

// document returns a resource as this API shows it: without its secrets, and with the times of
// RFC 3339.
func (s served) document(res *model.Resource) (map[string]any, error) {
	doc, err := res.Show(s.api.Now())
	if err != nil {
		return nil, err
	}
	for _, pointer := range s.Kind.Secrets {
		delete(doc, strings.TrimPrefix(pointer, "/"))
	}
	doc[model.FieldCreated], doc[model.FieldUpdated] = stamp(res.Created), stamp(latest(res.Created, res.Modified))
	if s.Complete != nil {
		err = s.Complete(s.api, res, doc)
	}
	return doc, err
}

// latest returns the later of two times: a commit may have been dated a moment before what it stores.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stamp writes a time with milliseconds (RFC 3339).
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
