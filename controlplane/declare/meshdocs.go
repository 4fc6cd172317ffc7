package declare

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
)

// maxDocument bounds one document in bytes; the API takes no larger one.
const maxDocument = 4 << 20

// meshDoc is a document of the mesh API.
type meshDoc struct {
	kind       *model.Kind
	mesh, name string
	// values is the whole document, with defaults and without times, in the one form that the
	// API has for it.
	values map[string]any
	// stored, unless it is nil, is what the control plane would store of it.
	stored map[string]any
	// unasked is whether the control plane had no time to say that.
	unasked bool
	where   string
	// unknown are members that the tool does not know, because it is older than the API.
	unknown []string
}

// lost says what is not in values, or nothing.
func (d *meshDoc) lost() string {
	if len(d.unknown) == 0 {
		return ""
	}
	return d.label() + ": " + client.Plain(strings.Join(d.unknown, ", ")) + ": not known to this tool, which leaves it out"
}

func (d *meshDoc) key() string { return d.kind.Name + "/" + d.mesh + "/" + d.name }

// of returns the mesh that a document is about: its own name, if it is a mesh.
func (d *meshDoc) of() string {
	if d.kind == mesh.Meshes {
		return d.name
	}
	return d.mesh
}

func (d *meshDoc) path() string {
	path := "/" + d.kind.Path + "/" + url.PathEscape(d.name)
	if d.kind.Scoping == model.Mesh {
		path = "/meshes/" + url.PathEscape(d.mesh) + path
	}
	return path
}

func (d *meshDoc) label() string {
	if d.kind.Scoping == model.Mesh {
		return d.kind.Document.Type + " " + d.name + " of mesh " + d.mesh
	}
	return d.kind.Document.Type + " " + d.name
}

// documented returns the kinds whose documents are written through the mesh API.
func documented(kinds []*model.Kind) (list []*model.Kind) {
	for _, k := range kinds {
		if k.Document != nil && !k.ReadOnly {
			list = append(list, k)
		}
	}
	return list
}

// ofProxies reports whether the documents of a kind come and go with proxies and zones.
func ofProxies(k *model.Kind) bool {
	return slices.Contains([]*model.Kind{mesh.Dataplanes, mesh.ZoneIngresses, mesh.ZoneEgresses, mesh.Zones}, k)
}

// ofSecrets reports whether the documents of a kind are secrets, which the control plane
// partly makes itself.
func ofSecrets(k *model.Kind) bool { return k.Document.AdminOnly }

// parseDocs reads a stream of documents. The error is [Problems].
func parseDocs(ctx context.Context, sources []source, kinds []*model.Kind) ([]*meshDoc, error) {
	var docs []*meshDoc
	var problems Problems
	seen := map[string]string{}
	for _, s := range sources {
		err := eachDoc(s.data, func(n *yaml.Node) {
			where := fmt.Sprintf("%s:%d", s.name, n.Line)
			d, wrong := parseDoc(ctx, n, kinds)
			for _, text := range wrong {
				problems = append(problems, where+": "+text)
			}
			if d == nil {
				return
			}
			if d.where = where; seen[d.key()] != "" {
				problems = append(problems, fmt.Sprintf("%s: %s: already exists (%s)", where, d.label(), seen[d.key()]))
			}
			seen[d.key()] = where
			docs = append(docs, d)
		})
		if err != nil {
			problems = append(problems, s.name+": not valid YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return docs, nil
}

// eachDoc calls do with each document of a stream that is not empty. A list, which JSON needs,
// is as many documents.
func eachDoc(data []byte, do func(n *yaml.Node)) error {
	stream := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := stream.Decode(&n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(n.Content) != 1 || n.Content[0].ShortTag() == "!!null" {
			continue
		}
		list := n.Content
		if list[0].Kind == yaml.SequenceNode {
			list = list[0].Content
		}
		for _, one := range list {
			do(one)
		}
	}
}

// parseDoc reads one document. It returns what is wrong with it.
func parseDoc(ctx context.Context, n *yaml.Node, kinds []*model.Kind) (*meshDoc, []string) {
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, []string{err.Error()}
	}
	raw, err := yamldoc.JSON(ctx, text, maxDocument)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var head struct{ Type, Name, Mesh string }
	err = json.Unmarshal(raw, &head)
	switch wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); {
	case ok && wrong.Field != "":
		return nil, []string{strings.ToLower(wrong.Field) + ": must be a text: put it in quotes (y, no and 1 are no texts in YAML)"}
	case err != nil || head.Type == "" || head.Name == "":
		return nil, []string{"a document is an object with type, name and, unless it is global, mesh"}
	}
	kind, err := kindOfType(kinds, head.Type, head.Mesh)
	if err != nil {
		return nil, []string{err.Error()}
	}
	d, unknown, err := canonical(kind, raw)
	if err != nil {
		return nil, violations(head.Type+" "+head.Name, err)
	}
	wrong := violations(d.label(), fault.Violated(unknown))
	if kind.Scoping == model.Mesh && d.mesh == "" {
		wrong = append(wrong, d.label()+": mesh: cannot be empty")
	}
	if kind.Document.Validate != nil {
		read, err := model.ReadDocument(kind, raw)
		if err == nil {
			complete(kind, read.Spec)
			wrong = append(wrong, violations(d.label(), fault.Violated(kind.Document.Validate(read.Spec)))...)
		}
	}
	if concealed(d.values) {
		wrong = append(wrong, d.label()+": a value is "+model.Concealed+", which stands for a secret that whoever wrote the file may not see: write the value itself")
	}
	return d, wrong
}

// kindOfType finds a kind by the type in a document.
func kindOfType(kinds []*model.Kind, name, meshName string) (*model.Kind, error) {
	var types []string
	for _, k := range kinds {
		if k.Document.Type == name && (k.Scoping != model.Mesh || meshName != "" || name != "Secret") {
			return k, nil
		}
		types = append(types, k.Document.Type)
	}
	for _, k := range kinds {
		if slices.Contains(k.Document.Aliases, name) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("type: there is no type %q%s", name, fault.Meant(name, types))
}

func complete(k *model.Kind, spec any) {
	if k.Document.Default != nil {
		k.Document.Default(spec)
	}
}

// canonical reads a document and returns it in the form that the API has for it.
func canonical(k *model.Kind, raw []byte) (*meshDoc, []fault.Violation, error) {
	read, err := model.ReadDocument(k, raw)
	if err != nil {
		return nil, nil, err
	}
	complete(k, read.Spec)
	if l, ok := read.Spec.(interface{ SetLabels(map[string]string) }); ok {
		l.SetLabels(read.Meta.Labels)
	}
	encoded, err := model.EncodeDocument(&model.Resource{Kind: k, Scope: read.Meta.Mesh, Name: read.Meta.Name, Spec: read.Spec})
	if err != nil {
		return nil, nil, err
	}
	d := &meshDoc{kind: k, name: read.Meta.Name, values: map[string]any{}}
	if k.Scoping == model.Mesh {
		d.mesh = read.Meta.Mesh
	}
	if err := json.Unmarshal(encoded, &d.values); err != nil {
		return nil, nil, err
	}
	delete(d.values, "creationTime")
	delete(d.values, "modificationTime")
	return d, read.Unknown, nil
}

// violations returns an error as lines.
func violations(label string, err error) (out []string) {
	if err == nil {
		return nil
	}
	failed, ok := errors.AsType[*fault.Error](err)
	if !ok || len(failed.Violations) == 0 {
		return []string{label + ": " + err.Error()}
	}
	for _, v := range failed.Violations {
		out = append(out, label+": "+v.Path+": "+v.Message)
	}
	return out
}

// concealed reports whether a value stands for a secret that was not shown.
func concealed(v any) bool {
	switch v := v.(type) {
	case string:
		return v == model.Concealed
	case map[string]any:
		for _, item := range v {
			if concealed(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, concealed)
	}
	return false
}

// readDocs reads all documents of some kinds, of one mesh or of all, in a fixed order.
func readDocs(ctx context.Context, api *API, kinds []*model.Kind, only string) ([]*meshDoc, error) {
	lists := make([][]*meshDoc, len(kinds))
	err := parallel(ctx, api.Parallel, len(kinds), func(ctx context.Context, i int) (err error) {
		lists[i], err = readKind(ctx, api, kinds[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []*meshDoc
	for i := range kinds {
		slices.SortFunc(lists[i], func(a, b *meshDoc) int { return cmp.Or(cmp.Compare(a.mesh, b.mesh), cmp.Compare(a.name, b.name)) })
		for _, d := range lists[i] {
			if only == "" || d.of() == only {
				all = append(all, d)
			}
		}
	}
	return all, nil
}

func readKind(ctx context.Context, api *API, k *model.Kind) (docs []*meshDoc, err error) {
	query := url.Values{"size": {pageSize}}
	var bounds pages
	for {
		var page struct {
			Items      []json.RawMessage `json:"items"`
			Next       *string           `json:"next"`
			Unreadable int               `json:"unreadable"`
		}
		if err := api.call(ctx, http.MethodGet, "/"+k.Path, query, nil, &page); err != nil {
			return nil, err
		}
		if page.Items == nil {
			return nil, fmt.Errorf("the answer to GET /%s is no list", k.Path)
		}
		if page.Unreadable > 0 {
			return nil, fmt.Errorf("%d of %s cannot be read by the control plane: its log names them", page.Unreadable, k.Path)
		}
		for _, raw := range page.Items {
			d, unknown, err := canonical(k, raw)
			if err != nil {
				return nil, fmt.Errorf("an answer to GET /%s is not understood: %w", k.Path, err)
			}
			for _, v := range unknown {
				d.unknown = append(d.unknown, v.Path)
			}
			docs = append(docs, d)
		}
		api.advance(len(page.Items))
		if page.Next == nil || *page.Next == "" {
			return docs, nil
		}
		next, err := url.Parse(*page.Next)
		if err != nil || next.Query().Get("offset") == "" || next.Query().Get("offset") == query.Get("offset") {
			return nil, fmt.Errorf("the next page of /%s is not understood", k.Path)
		}
		if err := bounds.add(k.Path, len(page.Items)); err != nil {
			return nil, err
		}
		query = next.Query()
	}
}
