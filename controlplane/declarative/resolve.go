package declarative

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// namespace is the namespace of the ids that this package makes (UUID version 5, RFC 9562
// section 5.5). It must never change, because the ids would.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:meshgate:declarative"))

// needDatabase lists the plugins that a file cannot contain.
var needDatabase = map[string]string{
	gateway.PluginOAuth2: "the plugin issues tokens and codes and needs a database to keep them: remove it from the file, or administrate the gateway through the API instead of a file",
}

// resolver completes the entities of a file. Entities that others refer to come first.
type resolver struct {
	file  *File
	gate  *admit.Gate
	scope string
	// taken maps kind, field and value to the entity that has it.
	taken map[[3]string]*entity
}

// Resolve completes and validates every entity, follows references inside the file and sets
// ids. The error is [*Problems].
func (f *File) Resolve(gate *admit.Gate, scope string) error {
	r := &resolver{file: f, gate: gate, scope: scope, taken: map[[3]string]*entity{}}
	for _, kind := range inOrder(f.kinds) {
		for _, e := range f.entities {
			if e.kind == kind {
				r.resolve(e)
			}
		}
	}
	return f.problems.orNil()
}

// inOrder sorts kinds so that each follows the kinds that it refers to.
func inOrder(kinds []*model.Kind) (sorted []*model.Kind) {
	var visit func(k *model.Kind)
	visit = func(k *model.Kind) {
		if slices.Contains(sorted, k) {
			return
		}
		for i := range k.Schema.Fields {
			to := slices.IndexFunc(kinds, func(o *model.Kind) bool { return o != k && o.Name == k.Schema.Fields[i].To })
			if to >= 0 {
				visit(kinds[to])
			}
		}
		sorted = append(sorted, k)
	}
	for _, k := range kinds {
		visit(k)
	}
	return sorted
}

func (r *resolver) resolve(e *entity) {
	if !r.permitted(e) {
		return
	}
	values := maps.Clone(e.values)
	if e.parent != nil {
		id := uuid.Nil.String() // placeholder for a parent that has problems of its own
		if e.parent.resource != nil {
			id = e.parent.resource.Name
		}
		values[e.ref] = map[string]any{model.FieldID: id}
	}
	w, err := r.gate.Prepare(e.kind, model.OpCreate, admit.Input{Values: values}, nil)
	if err != nil {
		r.file.violated(e, err)
		return
	}
	if e.parent != nil && e.parent.resource == nil || !r.references(e, w.New) {
		return
	}
	spec, err := e.kind.Fill(w.New)
	if err != nil {
		r.file.problems.add(e.at.line, e.path, "%v", err)
		return
	}
	res := &model.Resource{Kind: e.kind, Scope: r.scope, Spec: spec, Created: e.kind.Schema.Created(w.New)}
	if res.Name, err = r.id(e, w.New, spec); err != nil {
		r.file.problems.add(e.at.line, e.path, "%v", err)
		return
	}
	if r.claim(e, res) {
		e.resource = res
	}
}

// permitted refuses values that would differ from start to start, and plugins that need a
// database.
func (r *resolver) permitted(e *entity) bool {
	before := len(r.file.problems.List)
	bad := func(field, text string) {
		line, path := e.at.find(field)
		r.file.problems.add(line, e.path+path, "%s", text)
	}
	if name, _ := e.values["name"].(string); e.kind == gateway.Plugins && needDatabase[name] != "" {
		bad("name", needDatabase[name])
	}
	for i := range e.kind.Schema.Fields {
		f := &e.kind.Schema.Fields[i]
		if f.Auto != nil && e.values[f.Name] == nil && e.kind.Class == model.Credential {
			bad(f.Name, "must be given in a file: a generated value would be another one after every start")
		}
	}
	if e.values["ttl"] != nil {
		bad("ttl", "not supported in a file: it would begin again with every start")
	}
	return len(r.file.problems.List) == before
}

// references replaces references by the ids of their targets in the file.
func (r *resolver) references(e *entity, complete map[string]any) bool {
	good := true
	for i := range e.kind.Schema.Fields {
		f := &e.kind.Schema.Fields[i]
		ref, ok := complete[f.Name].(map[string]any)
		if f.Type != model.Foreign || !ok {
			continue
		}
		for name, value := range ref {
			to := r.file.kindNamed(f.To)
			target := r.taken[[3]string{f.To, name, fmt.Sprint(value)}]
			if to != nil && target != nil && (name == model.FieldID || admit.Resolvable(to, name)) {
				complete[f.Name] = map[string]any{model.FieldID: target.resource.Name}
				continue
			}
			good = false
			line, path := e.at.find(f.Name)
			r.file.problems.add(line, e.path+path, "the file has no %s with the %s %q", f.To, name, value)
		}
	}
	return good
}

// id returns the id in the file. Without one, it derives the id from what makes the entity
// unique or, if nothing does, from all its fields.
func (r *resolver) id(e *entity, complete map[string]any, spec any) (string, error) {
	if stated, ok := complete[model.FieldID].(string); ok {
		return strings.ToLower(stated), nil
	}
	for i := range e.kind.Unique {
		if value, ok := e.kind.Unique[i].Value(spec); ok {
			return r.derived(e, e.kind.Unique[i].Name, value), nil
		}
	}
	raw, err := json.Marshal(spec)
	return r.derived(e, "", string(raw)), err
}

func (r *resolver) derived(e *entity, index, value string) string {
	return uuid.NewSHA1(namespace, []byte(strings.Join([]string{r.scope, e.kind.Name, index, value}, "\n"))).String()
}

// claim reserves the id and the unique values of an entity, unless another entity of the file
// has them.
func (r *resolver) claim(e *entity, res *model.Resource) bool {
	var claims [][3]string
	for i := range e.kind.Unique {
		if value, ok := e.kind.Unique[i].Value(res.Spec); ok {
			claims = append(claims, [3]string{e.kind.Name, e.kind.Unique[i].Name, value})
		}
	}
	claims = append(claims, [3]string{e.kind.Name, model.FieldID, res.Name})
	for _, c := range claims {
		if other := r.taken[c]; other != nil {
			line, path := e.at.line, ""
			if e.kind.Schema.Field(c[1]) != nil {
				line, path = e.at.find(c[1])
			}
			r.file.problems.add(line, e.path+path, "the %s on line %d has the same %s", e.kind.Name, other.at.line, c[1])
			return false
		}
	}
	for _, c := range claims {
		r.taken[c] = e
	}
	e.resource = res
	return true
}
