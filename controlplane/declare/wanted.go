package declare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// builder makes what the gateway should hold of what the files say.
type builder struct {
	document *Document
	current  *State
	tags     []string
	// lookup finds what is in the gateway but not among what the files are about; nil finds
	// nothing.
	lookup func(ctx context.Context, k *model.Kind, key string) (*Entity, error)
	now    time.Time

	wanted *State
	// made maps what stands in the files to the entities made of it, actual the ids in the
	// files to those in the gateway, where these are others.
	made   map[*declarative.Entity]*Entity
	actual map[string]string
	// taken are the entities of the gateway that were matched.
	taken    map[*Entity]bool
	problems Problems
}

// build returns what the gateway should hold. Entities have the ids under which the gateway
// holds them, or new ones.
func (b *builder) build(ctx context.Context, kinds []*model.Kind) (*State, error) {
	b.wanted, b.made, b.actual, b.taken = newState(), map[*declarative.Entity]*Entity{}, map[string]string{}, map[*Entity]bool{}
	for _, k := range kinds {
		var made []*Entity
		for _, from := range b.document.Entities {
			if from.Kind != k {
				continue
			}
			e, err := b.make(ctx, from)
			if err != nil {
				return nil, err
			}
			if e != nil {
				b.made[from] = e
				made = append(made, e)
			}
		}
		b.match(made)
	}
	if len(b.problems) > 0 {
		for i := range b.problems {
			b.problems[i] = hide(b.problems[i], b.document.Masked)
		}
		return nil, b.problems
	}
	b.wanted.sort(kinds)
	return b.wanted, nil
}

// make completes and validates one entity. It returns nil if it has problems.
func (b *builder) make(ctx context.Context, from *declarative.Entity) (*Entity, error) {
	given := maps.Clone(from.Values)
	unflatten(from.Kind, given)
	completed(from.Kind.Schema, given, b.document.Header.Defaults[from.Kind.Name])
	if from.Parent != nil {
		parent := b.made[from.Parent]
		if parent == nil {
			return nil, nil //nolint:nilnil // the parent has problems
		}
		given[from.Ref] = map[string]any{model.FieldID: parent.ID}
	}
	b.tag(from.Kind, given)
	if err := b.references(ctx, from, given); err != nil {
		return nil, err
	}
	if from.Kind == gateway.Tokens && len(b.tags) > 0 && b.wanted.get(gateway.Applications.Name, refID(given, gateway.RefCredential)) == nil {
		b.problems = append(b.problems, fmt.Sprintf("%s:%d: the application of an access token is not selected", from.File, from.Line))
		return nil, nil //nolint:nilnil // it has a problem
	}
	if !b.complete(from, given) {
		return nil, nil //nolint:nilnil // it has problems
	}
	replaced := b.replaced(from, given)
	w, err := from.Kind.Schema.Process(model.OpCreate, given, nil)
	if err == nil && from.Kind != gateway.Applications && from.Kind.Schema.Settle != nil {
		err = from.Kind.Schema.Settle(w, b.now)
	}
	if err != nil {
		b.problems = append(b.problems, from.Violated(err)...)
		return nil, nil //nolint:nilnil // it has problems
	}
	id := strings.ToLower(text(w.New, model.FieldID))
	_, stated := w.Given[model.FieldID]
	e := &Entity{Kind: from.Kind, ID: id, Values: plain(from.Kind, pick(w.Given, w.New)), where: fmt.Sprintf("%s:%d", from.File, from.Line), stated: stated, replaced: replaced}
	return b.renamed(e), nil
}

// replaced returns the paths of the values that come from the environment. If one of these is a
// shorthand, so does what it stands for.
func (b *builder) replaced(from *declarative.Entity, given map[string]any) []string {
	list := slices.Clone(from.Replaced)
	for _, path := range b.document.Header.Replaced[from.Kind.Name] {
		if !gives(from.Values, path) {
			list = append(list, path)
		}
	}
	short := func(path string) bool {
		return slices.ContainsFunc(from.Kind.Schema.Shorthands, func(f model.Field) bool { return "/"+f.Name == path })
	}
	if s := from.Kind.Schema; s.Shorthand != nil && slices.ContainsFunc(list, short) {
		long := maps.Clone(given)
		s.Shorthand(long)
		for name := range long {
			if _, is := given[name]; !is {
				list = append(list, "/"+name)
			}
		}
	}
	return list
}

// unflatten replaces second spellings of references.
func unflatten(k *model.Kind, given map[string]any) {
	for i := range k.Schema.Fields {
		f := &k.Schema.Fields[i]
		if id, ok := given[f.Flat].(string); ok && f.Flat != "" {
			delete(given, f.Flat)
			given[f.Name] = map[string]any{model.FieldID: id}
		}
	}
}

// pick returns the normalised values of what is given, without defaults.
func pick(given, complete map[string]any) map[string]any {
	out := make(map[string]any, len(given))
	for name, v := range given {
		n, known := complete[name]
		record, isRecord := v.(map[string]any)
		normalised, wasRecord := n.(map[string]any)
		switch {
		case isRecord && wasRecord:
			out[name] = pick(record, normalised)
		case known:
			out[name] = n
		}
	}
	return out
}

// tag adds the tags by which the entities of the files are selected.
func (b *builder) tag(k *model.Kind, given map[string]any) {
	if len(b.tags) == 0 || k.Schema.Field("tags") == nil {
		return
	}
	own, _ := given["tags"].([]any)
	list := slices.Clone(own)
	for _, tag := range b.tags {
		if !slices.Contains(list, any(tag)) {
			list = append(list, tag)
		}
	}
	given["tags"] = list
}

// complete demands what the API would make up otherwise: nobody would know the secret, and
// the next run would not find the credential.
func (b *builder) complete(from *declarative.Entity, given map[string]any) bool {
	before := len(b.problems)
	for i := range from.Kind.Schema.Fields {
		f := &from.Kind.Schema.Fields[i]
		if from.Kind.Class == model.Credential && f.Auto != nil && !f.Meta && given[f.Name] == nil {
			b.problems = append(b.problems, from.Violated(fault.Violated([]fault.Violation{{Path: f.Name, Message: f.Name + " is required"}}))...)
		}
	}
	return len(b.problems) == before
}

// references replaces references by the ids of what they lead to.
func (b *builder) references(ctx context.Context, from *declarative.Entity, given map[string]any) error {
	for i := range from.Kind.Schema.Fields {
		f := &from.Kind.Schema.Fields[i]
		ref, ok := given[f.Name].(map[string]any)
		if f.Type != model.Foreign || !ok || from.Parent != nil && f.Name == from.Ref {
			continue
		}
		key, by := refKey(f, ref)
		if key == "" {
			continue // the schema refuses it
		}
		to := kindNamed(f.To)
		target := b.find(to, by, key)
		if target == nil && b.lookup != nil {
			found, err := b.lookup(ctx, to, key)
			if err != nil {
				return err
			}
			target = found
		}
		if target == nil {
			b.problems = append(b.problems, fmt.Sprintf("%s:%d: building state: %s %s for %s %s: entity not found",
				from.File, from.Line, to.Name, key, shortName(from.Kind), called(from)))
			given[f.Name] = map[string]any{model.FieldID: uuid.Nil.String()}
			continue
		}
		given[f.Name] = map[string]any{model.FieldID: target.ID}
	}
	return nil
}

// refKey returns the value by which a reference names its target, and the field that has it.
func refKey(f *model.Field, ref map[string]any) (key, by string) {
	to := kindNamed(f.To)
	for _, name := range []string{model.FieldID, f.By, to.Schema.Key, "name"} {
		if s := text(ref, name); s != "" && name != "" {
			return s, name
		}
	}
	return "", ""
}

func kindNamed(name string) *model.Kind {
	for _, k := range gateway.Kinds() {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// find returns the entity of the files with an id or another value.
func (b *builder) find(k *model.Kind, by, value string) *Entity {
	if by == model.FieldID {
		value = strings.ToLower(value)
		if id, ok := b.actual[value]; ok {
			value = id
		}
		return b.wanted.get(k.Name, value)
	}
	return b.wanted.byText[k.Name+"\x00"+by+"\x00"+value]
}

func called(from *declarative.Entity) string {
	return title(&Entity{Kind: from.Kind, ID: from.Path, Values: from.Values})
}

// renamed replaces ids of the files by those in the gateway, in texts that name a consumer or
// an authority.
func (b *builder) renamed(e *Entity) *Entity {
	if len(b.actual) > 0 {
		e.Values, _ = replaceTexts(e.Values, b.actual).(map[string]any)
	}
	return e
}

func replaceTexts(v any, by map[string]string) any {
	switch v := v.(type) {
	case string:
		if other, ok := by[strings.ToLower(v)]; ok {
			return other
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaceTexts(v[i], by)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = replaceTexts(v[name], by)
		}
		return out
	}
	return v
}

// match gives the entities of one kind the ids of those in the gateway: of the one with the
// stated id, else of the one with the same natural key, else of one that says the same.
func (b *builder) match(made []*Entity) {
	matched := map[*Entity]bool{}
	for _, e := range made {
		if is := b.current.get(e.Kind.Name, e.ID); e.stated && is != nil {
			b.taken[is], matched[e] = true, true
		}
	}
	for _, e := range made {
		if !matched[e] {
			b.byKey(e)
		}
		if twin := b.wanted.add(e); twin != nil {
			b.problems = append(b.problems, fmt.Sprintf("%s: building state: inserting %s %s: entity already exists (%s)", e.where, shortName(e.Kind), title(e), twin.where))
		}
	}
}

func (b *builder) byKey(e *Entity) {
	var is *Entity
	if holders := slices.DeleteFunc(b.current.holders(naturalKey(e)), func(is *Entity) bool { return b.taken[is] }); len(holders) > 0 {
		is = holders[0]
	} else if naturalKey(e) == "" {
		is = b.same(e)
	}
	switch {
	case is != nil:
		b.taken[is] = true
		if e.stated && e.ID != is.ID {
			b.actual[e.ID] = is.ID
		}
		e.ID = is.ID
	case e.ID == "":
		e.ID = uuid.NewString()
	}
}

// same returns an entity of the gateway that nothing but its id distinguishes from others and
// that says what e says. Members that e does not name have whatever value.
func (b *builder) same(e *Entity) *Entity {
	if e.stated {
		return nil
	}
	for _, is := range b.current.Entities {
		if is.Kind != e.Kind || b.taken[is] || naturalKey(is) != "" {
			continue
		}
		equal := true
		for name, v := range e.Values {
			equal = equal && field{}.equal(v, is.Values[name])
		}
		if equal {
			return is
		}
	}
	return nil
}
