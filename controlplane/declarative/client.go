package declarative

import (
	"errors"
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// The names at the top of the files of clients. keyCloudOther is the name that the section has
// in the files of other tools; it is only read.
const (
	keyWorkspace   = "_workspace"
	keyCloud       = "_cloud"
	keyCloudOther  = "_konnect"
	keyPlaneName   = "control_plane_name"
	keyGroupName   = "runtime_group_name"
	keyDefaults    = "defaults"
	keyLookupTags  = "default_lookup_tags"
	keyDumped      = "dumped_at"
	textWantObject = "expected an object"
)

// Client reads files for a client of the administration API, which brings them to a gateway
// with a database. So they may hold more than the file of a gateway without one: references to
// the environment, defaults, and where they are meant for.
type Client struct {
	// Lookup returns a variable of the environment.
	Lookup func(name string) (string, bool)
}

// Header is what a file says about itself.
type Header struct {
	// SelectTags are texts.
	SelectTags []any
	// Defaults are values that entities get, by the name of their kind.
	Defaults map[string]map[string]any
	// Replaced are the paths of defaults that come from the environment, by the name of the
	// kind; see [Entity].
	Replaced map[string][]string
	// Workspace and ControlPlane say where the file is meant for; Cloud is set if it has the
	// section that names a control plane.
	Workspace, ControlPlane string
	Cloud                   bool
	// Dumped is the time (RFC 3339) since which lifetimes in the file have been running.
	Dumped string
}

// Entity is one entity of a file, as it stands there.
type Entity struct {
	Kind *model.Kind
	// File, Line and Path are where it stands.
	File string
	Line int
	Path string
	// Values are its members. References are objects of one member.
	Values map[string]any
	// Parent is the entity in which it stands, Ref its reference to that.
	Parent *Entity
	Ref    string
	// Replaced are the paths of values that come from the environment, such as /config/realm.
	// Those in lists have a 0 in place of the index.
	Replaced []string
	origin   *entity
	file     *File
}

// Parse is [Parse] for the files of clients.
func (c *Client) Parse(name string, data []byte, kinds []*model.Kind) (*File, error) {
	f, err := read(&File{name: name, kinds: kinds, client: c, problems: &Problems{File: name}}, data)
	f.problems.name(f.entities)
	return f, err
}

func (c *Client) keys() []string {
	if c == nil {
		return nil
	}
	return []string{keyWorkspace, keyCloud, keyCloudOther}
}

// env returns what replaces references in this file, or nil.
func (f *File) env() *environment {
	if f.client == nil {
		return nil
	}
	f.environment = &environment{lookup: f.client.Lookup}
	return f.environment
}

// Masked lists values from the environment, which should not be shown.
func (f *File) Masked() []string {
	if f.environment == nil {
		return nil
	}
	return f.environment.values
}

// header reads where the file is meant for.
func (f *File) header(root *node) {
	h := &f.Header
	if n := root.fields[keyWorkspace]; n != nil {
		h.Workspace = f.text(n, keyWorkspace)
	}
	for _, key := range []string{keyCloud, keyCloudOther} {
		n := root.fields[key]
		if n == nil {
			continue
		}
		if n.fields == nil {
			f.problems.add(n.line, key, textWantObject)
		}
		h.Cloud = true
		for _, name := range n.names {
			if name != keyPlaneName && (key == keyCloud || name != keyGroupName) {
				f.problems.add(n.fields[name].line, key+"."+name, "unknown key; only %s is known", keyPlaneName)
				continue
			}
			h.ControlPlane = f.text(n.fields[name], key+"."+name)
		}
	}
}

func (f *File) text(n *node, path string) string {
	text, ok := n.scalar.(string)
	if !ok || text == "" {
		f.problems.add(n.line, path, "expected a text")
	}
	return text
}

// clientInfo reads a member of _info that only the files of clients have.
func (f *File) clientInfo(name string, n *node) {
	path := keyInfo + "." + name
	switch name {
	case keyDefaults:
		f.Header.Defaults = map[string]map[string]any{}
		if n.fields == nil {
			f.problems.add(n.line, path, textWantObject)
		}
		for _, kind := range n.names {
			f.defaults(kind, n.fields[kind], path+"."+kind)
		}
	case keyLookupTags: // references are looked up among everything
	case keyDumped:
		f.Header.Dumped = f.text(n, path)
	default:
		f.problems.add(n.line, path, "unknown key; there are %s, %s and %s", keySelect, keyDefaults, keyLookupTags)
	}
}

// defaults reads the defaults of one kind.
func (f *File) defaults(name string, n *node, path string) {
	kind := f.kindNamed(name)
	if kind == nil {
		f.problems.add(n.line, path, "there is no kind of this name")
		return
	}
	values := map[string]any{}
	for _, field := range n.names {
		described := kind.Schema.Field(field)
		if described == nil || described.Hidden || described.Meta {
			f.problems.add(n.fields[field].line, path+"."+field, "unknown key, or one that has no default")
			continue
		}
		if described.Variant != nil { // what one plugin needs is an unknown member of all others
			f.problems.add(n.fields[field].line, path+"."+field, "it has no default, because each %s has members of its own: say it of each, with a YAML anchor if they are alike", name)
			continue
		}
		values[field] = n.fields[field].plain()
		if f.Header.Replaced == nil {
			f.Header.Replaced = map[string][]string{}
		}
		f.Header.Replaced[name] = n.fields[field].replacements("/"+field, f.Header.Replaced[name])
	}
	f.Header.Defaults[name] = values
}

// Entities returns all entities in the order of the file. Parents come before what stands in
// them.
func (f *File) Entities() []*Entity {
	list, of := make([]*Entity, 0, len(f.entities)), map[*entity]*Entity{}
	for _, e := range f.entities {
		shown := &Entity{
			Kind: e.kind, File: f.name, Line: e.at.line, Path: e.path, Values: e.values,
			Parent: of[e.parent], Ref: e.ref, origin: e, file: f,
		}
		for name := range e.values {
			if e.at.fields == nil { // a text stands for its key
				shown.Replaced = e.at.replacements("/"+name, shown.Replaced)
			} else {
				shown.Replaced = e.at.fields[name].replacements("/"+name, shown.Replaced)
			}
		}
		of[e] = shown
		list = append(list, shown)
	}
	return list
}

// replacements adds the paths of the values from the environment in a node.
func (n *node) replacements(path string, list []string) []string {
	for name, field := range n.fields {
		list = field.replacements(path+"/"+name, list)
	}
	for _, item := range n.items {
		list = item.replacements(path+"/0", list)
	}
	if n.replaced {
		list = append(list, path)
	}
	return list
}

// Violated returns the violations of an entity as lines; see [Texts].
func (e *Entity) Violated(err error) []string {
	problems := &Problems{File: e.file.name}
	(&File{kinds: e.file.kinds, problems: problems}).violated(e.origin, err)
	problems.name(e.file.entities)
	return Texts(problems)
}

// name adds to problems the entities that they are in.
func (p *Problems) name(entities []*entity) {
	for i := range p.List {
		longest := -1
		for _, e := range entities {
			if len(e.path) > longest && strings.HasPrefix(p.List[i].Path, e.path) {
				longest, p.List[i].Object = len(e.path), e.called()
			}
		}
	}
}

// called returns the text by which people know an entity, or nothing. Keys and tokens are
// secrets.
func (e *entity) called() string {
	for _, field := range []string{e.kind.Schema.Key, "name"} {
		if text, ok := e.values[field].(string); ok && !e.kind.Conceals("/"+field) {
			return text
		}
	}
	return ""
}

// Texts returns the lines of an error of this package, in the words of the tools for such
// files: object=, and a path whose indexes are separated by dots.
func Texts(err error) []string {
	problems, ok := errors.AsType[*Problems](err)
	if !ok {
		return []string{err.Error()}
	}
	out := make([]string, 0, len(problems.List))
	for _, one := range problems.List {
		path := strings.NewReplacer("[", ".", "]", "").Replace(one.Path)
		if path != "" {
			path += ": "
		}
		out = append(out, fmt.Sprintf("%s:%d: validation error: object=%s, err=%s%s", problems.File, one.Line, one.Object, path, one.Message))
	}
	return out
}
