package meshapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The names of path values.
const (
	pathMesh = "mesh"
	pathName = "name"
)

// The prefix of paths in a mesh, and of paths that cover all meshes.
const (
	prefixMesh = "/meshes/{" + pathMesh + "}/"
	prefixAll  = "/"
)

// collection holds the endpoints of one kind.
type collection struct {
	api  *API
	kind *model.Kind
}

// endpoints returns the endpoints at every path of the kind.
func (c collection) endpoints() []httpkit.Endpoint {
	list := c.endpointsAt(c.kind.Path)
	for _, path := range c.kind.Document.OtherPaths {
		list = append(list, c.endpointsAt(path)...)
	}
	return list
}

func (c collection) endpointsAt(path string) []httpkit.Endpoint {
	d := c.kind.Document
	read, write := c.rights()
	route := func(method, pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
		auth := write
		if method == http.MethodGet {
			auth = read
		}
		return about(`the resource of type "`+d.Type+`"`, endpoint(method, pattern, auth, summary, mediaJSON, named(h))).About(c.kind.Name)
	}
	item, page := prefixAll+path, shows(d.Type+suffixList, c.parameters()...)
	whole := does(route(http.MethodGet, item, "List "+d.Plural, c.list(item)), page)
	if read == access.Read && (c.kind == mesh.Meshes || c.kind.Scoping == model.Mesh) {
		whole.Where = somewhere
	}
	list := []httpkit.Endpoint{whole}
	if c.kind.Scoping == model.Mesh {
		item = prefixMesh + path
		list = append(list, does(route(http.MethodGet, item, "List "+d.Plural+" of a mesh", c.list(item)), page, http.StatusNotFound))
	}
	put, remove := c.put, c.delete
	item += "/{" + pathName + "}"
	if why := c.api.Writes.closed(c.kind); why != "" {
		put, remove = refuse(why), refuse(why)
	}
	items := []httpkit.Endpoint{
		does(route(http.MethodGet, item, "Read a "+d.Singular, c.get), shows(d.Type+suffixRead, paramFormat, paramNamespace), http.StatusNotFound),
		does(route(http.MethodPut, item, "Create or replace a "+d.Singular, put), httpkit.Contract{
			Query: append([]httpkit.Parameter{paramValidation, paramForce}, c.tries()...), Body: d.Type + suffixWrite,
			Answers: map[int]string{http.StatusOK: c.tried(schemaWritten, schemaStored), http.StatusCreated: schemaStored},
		}, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict),
		does(route(http.MethodDelete, item, "Delete a "+d.Singular, remove), shows(c.tried(schemaDryRun, ""), append(c.tries(), paramForce)...),
			http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict),
	}
	if c.kind == mesh.Meshes {
		for i := range items {
			items[i].Where = ofMesh
		}
	}
	return append(list, items...)
}

// parameters returns the query parameters of the lists.
func (c collection) parameters() []httpkit.Parameter {
	list := []httpkit.Parameter{paramSize, paramOffset, {Name: "name", Type: "string", Summary: "Only those whose names contain this"}}
	if _, ok := c.kind.New().(tagged); ok {
		list = append(list, httpkit.Parameter{Name: "tag", Type: "string", Summary: "key:value: only those with a tag set that has a value with this part; more than one mean all of one tag set"})
	}
	if c.kind == mesh.Dataplanes {
		list = append(list, httpkit.Parameter{Name: "gateway", Type: "string", Summary: "true, false, builtin or delegated: only such gateways, or no gateways"})
	}
	if _, ok := c.kind.New().(labelled); ok {
		list = append(list, httpkit.Parameter{Name: labelPrefix + "KEY" + labelSuffix, Type: "string", Summary: "Only those whose label KEY has this value; more than one mean all of them"})
	}
	return list
}

// named returns a handler that logs the name of the requested resource. It does not log
// invalid names.
func named(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue(pathName); model.ValidateName(name, false) == nil {
			httpkit.EntryOf(r.Context()).Name = name
		}
		next(w, r)
	}
}

// failure is an error together with the operation that failed.
type failure struct {
	op operation
	error
}

// Unwrap returns the error.
func (f *failure) Unwrap() error { return f.error }

// failed attaches an operation to an error, unless the error is nil.
func failed(op operation, err error) error {
	if err == nil {
		return nil
	}
	return &failure{op, err}
}

// answer answers with an error of the given operation, or of the operation attached to it.
func answer(w http.ResponseWriter, r *http.Request, op operation, err error) {
	if f, ok := errors.AsType[*failure](err); ok {
		op = f.op
	}
	fail(w, r, op, err)
}

// meshExists looks up the mesh of a path, unless the name is empty.
func meshExists(reader store.Reader, name string) error {
	if name == "" {
		return nil
	}
	_, err := reader.Get(mesh.Meshes, "", name)
	return failed(opMesh, err)
}

// read returns the resource at the path of a request, whose mesh must exist.
func (c collection) read(r *http.Request) (res *model.Resource, err error) {
	err = c.api.Store.View(r.Context(), func(reader store.Reader) error {
		if err := meshExists(reader, r.PathValue(pathMesh)); err != nil {
			return err
		}
		res, err = reader.Get(c.kind, r.PathValue(pathMesh), r.PathValue(pathName))
		return err
	})
	return res, err
}

func (c collection) get(w http.ResponseWriter, r *http.Request) {
	show, err := format(r)
	if err != nil {
		fail(w, r, opFormat, err)
		return
	}
	res, err := c.read(r)
	if err != nil {
		answer(w, r, opGet, err)
		return
	}
	shown, err := show(c.api.encodingsFor(r, res), res)
	if err != nil {
		fail(w, r, opGet, err)
		return
	}
	reply(w, r, http.StatusOK, shown)
}

// delete also deletes resources that cannot be decoded, or whose mesh cannot be.
func (c collection) delete(w http.ResponseWriter, r *http.Request) {
	if _, err := c.read(r); err != nil && store.UnreadIn(err) == nil {
		answer(w, r, opDelete, err)
		return
	}
	allowed, err := c.allowed(r, nil)
	if err != nil {
		fail(w, r, opDelete, err)
		return
	}
	if dry, err := httpkit.WantsDryRun(r); err != nil || dry {
		c.tryDelete(w, r, allowed, err)
		return
	}
	commit, err := c.api.Writer.DeleteDocumentIf(r.Context(), c.kind, r.PathValue(pathMesh), r.PathValue(pathName), allowed)
	if err == nil || len(commit.Changes) > 0 {
		announce(w, r, commit)
	}
	if err != nil {
		c.failWrite(w, r, opDelete, err)
		return
	}
	empty(w, http.StatusOK)
}

// body reads the body of a request up to the limit.
func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fault.Wrap(fault.TooLarge, err, "the body is larger than %d bytes", MaxBody)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the body broke off")
	}
	return raw, nil
}
