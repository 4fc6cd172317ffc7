package declare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The formats of files.
const (
	asYAML = "yaml"
	asJSON = "json"
)

// dumper writes what a gateway holds as a file.
type dumper struct {
	state  *State
	kinds  []*model.Kind
	lookup func(ctx context.Context, k *model.Kind, key string) (*Entity, error)
	withID bool
	tags   []string
	// header are the members beside the collections.
	header map[string]any

	// named are the ids that references or texts name.
	named map[string]bool
	// outside are entities that are referred to and not dumped.
	outside map[string]*Entity
}

// document returns the file. Entities stand in what they belong to.
func (d *dumper) document(ctx context.Context) (map[string]any, error) {
	d.named, d.outside = map[string]bool{}, map[string]*Entity{}
	for _, e := range d.state.Entities {
		d.names(e)
	}
	out := map[string]any{"_format_version": declarative.FormatVersion}
	maps.Copy(out, d.header)
	shown := map[*Entity]map[string]any{}
	for _, e := range d.state.Entities {
		values, err := d.entity(ctx, e)
		if err != nil {
			return nil, err
		}
		shown[e] = values
		in, collection := out, collectionOf(e.Kind)
		if parent, ref := d.parent(e); parent != nil {
			in = shown[parent]
			delete(values, ref)
		}
		list, _ := in[collection].([]any)
		in[collection] = append(list, values)
	}
	return literal(out).(map[string]any), nil
}

// literal keeps texts of a gateway from being references to the environment of whoever brings
// the file back. They are changed in place.
func literal(v any) any {
	switch v := v.(type) {
	case string:
		return declarative.Literal(v)
	case map[string]any:
		for name := range v {
			v[name] = literal(v[name])
		}
	case []any:
		for i := range v {
			v[i] = literal(v[i])
		}
	}
	return v
}

// collectionOf is the name of the list of a kind in a file.
func collectionOf(k *model.Kind) string {
	if k == gateway.Tokens {
		return k.Path
	}
	return k.Plural()
}

// names notes the ids that an entity names other than by a reference to something with a name.
func (d *dumper) names(e *Entity) {
	for i := range e.Kind.Refs {
		if to := d.state.target(e, &e.Kind.Refs[i]); to != nil && keyText(to) == "" {
			d.named[to.ID] = true
		}
	}
	for i := range e.Kind.Holds {
		list, _ := e.Values[e.Kind.Holds[i].Name].([]any)
		for _, id := range words(list) {
			d.named[id] = true
		}
	}
	if config, ok := e.Values["config"].(map[string]any); ok && model.IsUUID(text(config, gateway.IndexAnonymous)) {
		d.named[text(config, gateway.IndexAnonymous)] = true
	}
}

// parent returns what an entity stands in: what it refers to, if that is one thing of the dump.
func (d *dumper) parent(e *Entity) (parent *Entity, ref string) {
	refs := 0
	for i := range e.Kind.Refs {
		r := &e.Kind.Refs[i]
		if refID(e.Values, r.Name) == "" || r.Name == gateway.RefClientCertificate {
			continue
		}
		refs++
		parent, ref = d.state.target(e, r), r.Name
	}
	if refs != 1 || e.Kind == gateway.Tokens {
		return nil, ""
	}
	return parent, ref
}

// entity returns the members of an entity in a file.
func (d *dumper) entity(ctx context.Context, e *Entity) (map[string]any, error) {
	values := maps.Clone(e.Values)
	for name, v := range values {
		if f := e.Kind.Schema.Field(name); v == nil && (f == nil || f.Default == nil) {
			delete(values, name)
		}
	}
	if d.withID || d.named[e.ID] || naturalKey(e) == "" || len(d.state.holders(naturalKey(e))) > 1 {
		values[model.FieldID] = e.ID
	}
	if len(d.tags) > 0 {
		own, _ := values["tags"].([]any)
		own = slices.DeleteFunc(slices.Clone(own), func(tag any) bool { return slices.Contains(d.tags, fmt.Sprint(tag)) })
		if values["tags"] = own; len(own) == 0 {
			delete(values, "tags")
		}
	}
	for i := range e.Kind.Schema.Fields {
		f := &e.Kind.Schema.Fields[i]
		id := refID(values, f.Name)
		if f.Type != model.Foreign || id == "" {
			continue
		}
		to, err := d.target(ctx, f.To, id)
		if err != nil {
			return nil, err
		}
		values[f.Name] = map[string]any{model.FieldID: id}
		if to != nil && keyText(to) != "" && !to.Kind.Conceals("/"+to.Kind.Schema.Key) {
			values[f.Name] = keyText(to)
			if model.IsUUID(keyText(to)) { // it would be taken for an id
				values[f.Name] = map[string]any{to.Kind.Schema.Key: keyText(to)}
			}
		}
	}
	return values, nil
}

// target returns what a reference leads to, whether it is dumped or not.
func (d *dumper) target(ctx context.Context, kind, id string) (*Entity, error) {
	if to := d.state.get(kind, id); to != nil {
		return to, nil
	}
	if to, known := d.outside[id]; known || d.lookup == nil {
		return to, nil
	}
	to, err := d.lookup(ctx, kindNamed(kind), id)
	d.outside[id] = to
	return to, err
}

// encode writes a document. Members are in the order of their names, so that equal documents
// are equal files.
func encode(doc any, format string) ([]byte, error) {
	if format == asJSON {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err := e.Encode(doc)
		return b.Bytes(), err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(integral(doc)); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// integral turns whole numbers into integers, which YAML would write with an exponent.
func integral(v any) any {
	switch v := v.(type) {
	case float64:
		if i := int64(v); float64(i) == v {
			return i
		}
	case map[string]any:
		for name := range v {
			v[name] = integral(v[name])
		}
	case []any:
		for i := range v {
			v[i] = integral(v[i])
		}
	}
	return v
}

// writeFile writes a file in one step, for its owner alone: it has secrets.
func writeFile(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error says more
		}
	}()
	_, err = io.Copy(f, bytes.NewReader(data))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}

// dumpHeader returns the members of a file beside the collections. now is the time from which on
// its lifetimes are counted, if it has any.
func dumpHeader(tags []string, workspace, plane string, now time.Time) map[string]any {
	header, info := map[string]any{}, map[string]any{}
	if len(tags) > 0 {
		info["select_tags"] = anys(tags)
	}
	if !now.IsZero() {
		info["dumped_at"] = now.UTC().Format(time.RFC3339)
	}
	if len(info) > 0 {
		header["_info"] = info
	}
	if workspace != "" {
		header["_workspace"] = workspace
	}
	if plane != "" {
		header["_cloud"] = map[string]any{"control_plane_name": plane}
	}
	return header
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
