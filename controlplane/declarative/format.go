package declarative

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// FormatVersion is the supported version of the file format.
const FormatVersion = "3.0"

// The names at the top of a file that are not collections.
const (
	keyFormat    = "_format_version"
	keyInfo      = "_info"
	keyTransform = "_transform"
	keyComment   = "_comment"
	keySelect    = "select_tags"
)

// entity is one entity of a file.
type entity struct {
	kind *model.Kind
	at   *node
	path string
	// values holds the fields of the entity in the file, without nested entities.
	values map[string]any
	// parent is the entity in which it is nested, ref its reference to the parent.
	parent *entity
	ref    string
	// resource is the resource to store; nil while the entity has problems.
	resource *model.Resource
}

// File is a file with a valid shape.
type File struct {
	// Header is what the file says about itself. Only the files of a [Client] have more in it
	// than tags.
	Header      Header
	name        string
	kinds       []*model.Kind
	client      *Client
	environment *environment
	entities    []*entity
	problems    *Problems
}

// Parse reads a file. kinds are the kinds that it may contain; name is the name of the file
// in problems. The error is [*Problems].
func Parse(name string, data []byte, kinds []*model.Kind) (*File, error) {
	return read(&File{name: name, kinds: kinds, problems: &Problems{File: name}}, data)
}

func read(f *File, data []byte) (*File, error) {
	root := parse(data, f.problems, f.env())
	if root == nil {
		return f, f.problems
	}
	if root.fields == nil {
		f.problems.add(root.line, "", "expected an object with %s and collections", keyFormat)
		return f, f.problems
	}
	f.top(root)
	return f, f.problems.orNil()
}

// top reads the members of the document.
func (f *File) top(root *node) {
	if version := root.fields[keyFormat]; version == nil {
		f.problems.add(root.line, keyFormat, "must be there: %q", FormatVersion)
	} else if fmt.Sprint(version.scalar) != FormatVersion && version.scalar != 3.0 {
		f.problems.add(version.line, keyFormat, "cannot apply '%v' config format version: it must be %q", version.scalar, FormatVersion)
	}
	known := []string{keyFormat, keyInfo, keyTransform, keyComment}
	for _, k := range f.kinds {
		known = append(known, k.Path)
	}
	f.info(root.fields[keyInfo])
	known = append(known, f.client.keys()...)
	for _, name := range root.names {
		if kind := f.collection(name); kind != nil {
			f.list(kind, root.fields[name], name, nil, "")
		} else if !slices.Contains(known, name) {
			f.problems.add(root.fields[name].line, name, "unknown key%s", fault.Meant(name, known))
		}
	}
	if f.client != nil {
		f.header(root)
		return
	}
	for _, e := range f.entities {
		e.tag(f.Header.SelectTags)
	}
}

// info reads the tags that every entity gets and, in the files of clients, defaults.
func (f *File) info(n *node) {
	if n == nil {
		return
	}
	if n.fields == nil {
		f.problems.add(n.line, keyInfo, "expected an object")
	}
	for _, name := range n.names {
		value := n.fields[name]
		switch {
		case name == keySelect:
			f.Header.SelectTags = f.texts(value, keyInfo+"."+name)
		case f.client == nil:
			f.problems.add(value.line, keyInfo+"."+name, "not supported; only %s is", keySelect)
		default:
			f.clientInfo(name, value)
		}
	}
}

// texts reads a list of texts.
func (f *File) texts(n *node, path string) (list []any) {
	if !n.isList {
		f.problems.add(n.line, path, "expected a list")
	}
	for _, item := range n.items {
		if text, ok := item.scalar.(string); ok && text != "" {
			list = append(list, text)
			continue
		}
		f.problems.add(item.line, path, "expected texts")
	}
	return list
}

// names lists the names of a kind's collection.
func names(k *model.Kind) []string { return []string{k.Path, k.Plural()} }

func (f *File) collection(name string) *model.Kind {
	for _, k := range f.kinds {
		if slices.Contains(names(k), name) {
			return k
		}
	}
	return nil
}

// nested returns the kind that may be nested in another one under a name.
func (f *File) nested(in *model.Kind, name string) (*model.Kind, string) {
	for _, k := range f.kinds {
		for _, ref := range k.Refs {
			if ref.To == in.Name && slices.Contains(names(k), name) {
				return k, ref.Name
			}
		}
	}
	return nil, ""
}

func (f *File) list(kind *model.Kind, n *node, path string, parent *entity, ref string) {
	if !n.isList {
		f.problems.add(n.line, path, "expected a list")
		return
	}
	for i, item := range n.items {
		f.entity(&entity{kind: kind, at: item, path: fmt.Sprintf("%s[%d]", path, i), parent: parent, ref: ref})
	}
}

// entity reads an entity and its nested entities. A text stands for the key field of its
// kind.
func (f *File) entity(e *entity) {
	f.entities = append(f.entities, e)
	e.values = map[string]any{}
	if text, ok := e.at.scalar.(string); ok && e.kind.Schema.Key != "" {
		e.values[e.kind.Schema.Key] = text
		return
	}
	if e.at.fields == nil {
		f.problems.add(e.at.line, e.path, "expected an object")
		return
	}
	for _, name := range e.at.names {
		value := e.at.fields[name]
		if kind, ref := f.nested(e.kind, name); kind != nil {
			f.list(kind, value, e.path+"."+name, e, ref)
			continue
		}
		if !f.known(e.kind, name) {
			f.problems.add(value.line, e.path+"."+name, "unknown key%s", fault.Meant(name, f.keys(e.kind)))
			continue
		}
		e.values[name] = f.reference(e.kind.Schema.Field(name), value)
	}
	if _, given := e.values[e.ref]; given && e.parent != nil {
		f.problems.add(e.at.fields[e.ref].line, e.path+"."+e.ref, "follows from where the entity stands")
	}
}

func (f *File) known(k *model.Kind, name string) bool { return slices.Contains(f.keys(k), name) }

// keys lists the members that an entity of a kind may have.
func (f *File) keys(k *model.Kind) (list []string) {
	for _, fields := range [][]model.Field{k.Schema.Fields, k.Schema.Shorthands} {
		for i := range fields {
			if !fields[i].Hidden {
				list = append(list, fields[i].Name)
			}
		}
	}
	for _, child := range f.kinds {
		for _, ref := range child.Refs {
			if ref.To == k.Name {
				list = append(list, names(child)...)
			}
		}
	}
	return list
}

// reference converts the text of a reference into the object that it stands for: an id, or
// the key field of the target's kind.
func (f *File) reference(field *model.Field, n *node) any {
	text, ok := n.scalar.(string)
	if field == nil || field.Type != model.Foreign || !ok {
		return n.plain()
	}
	to := f.kindNamed(field.To)
	if to == nil || to.Schema.Key == "" || model.IsUUID(text) {
		return map[string]any{model.FieldID: text}
	}
	return map[string]any{to.Schema.Key: text}
}

func (f *File) kindNamed(name string) *model.Kind {
	for _, k := range f.kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// tag adds tags to an entity if its kind has tags.
func (e *entity) tag(tags []any) {
	if len(tags) == 0 || e.kind.Schema.Field("tags") == nil {
		return
	}
	e.values = maps.Clone(e.values)
	own, _ := e.values["tags"].([]any)
	e.values["tags"] = append(slices.Clone(own), tags...)
}

// violated adds the violations of an entity with their lines.
func (f *File) violated(e *entity, err error) {
	failed, ok := errors.AsType[*fault.Error](err)
	if !ok || len(failed.Violations) == 0 {
		f.problems.add(e.at.line, e.path, "%v", err)
		return
	}
	for _, v := range failed.Violations {
		line, path := e.at.find(strings.TrimSuffix(strings.TrimSuffix(v.Path, model.EntityPath), "."))
		text := v.Message
		if meant, unknown := strings.CutPrefix(text, model.TextUnknown); unknown {
			text = "unknown key" + meant
		}
		f.problems.add(line, e.path+path, "%s", text)
	}
}
