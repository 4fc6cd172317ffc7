package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Limits of a record. Members beyond them are counted, and longer values are cut.
const (
	MaxMembers = 50
	MaxPath    = 200
	MaxValue   = 200
)

// metaOf are the members of a document that its author does not choose.
var metaOf = []string{"type", "mesh", "name", "creationTime", "modificationTime"}

// tree returns a resource as a JSON value, in the form of its API. It returns nil for no
// resource, and for one that cannot be decoded.
func tree(r *model.Resource) (any, error) {
	if r == nil || store.IsUnread(r) {
		return nil, nil //nolint:nilnil // the JSON value of nothing
	}
	if r.Kind.Schema != nil {
		entity, err := r.Entity()
		return entity, err
	}
	encode := func() ([]byte, error) { return json.Marshal(r.Spec) }
	if r.Kind.Document != nil {
		encode = func() ([]byte, error) { return model.EncodeDocument(r) }
	}
	raw, err := encode()
	if err != nil {
		return nil, fmt.Errorf("%s: encode the spec: %w", r.Kind.Name, err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: decode the spec: %w", r.Kind.Name, err)
	}
	if r.Kind.Document != nil {
		for _, name := range metaOf {
			delete(m, name)
		}
	}
	return m, nil
}

// differ collects the members in which two JSON values differ.
type differ struct {
	kind    *model.Kind
	members []store.Member
	more    int
}

// none stands for a missing member.
type none struct{}

// compare walks two values at the same time. Only scalars and empty containers become
// members, so that a value is never more than a line, and setting all of them yields the new
// resource.
func (d *differ) compare(path string, old, now any) {
	oldKeys, oldIs := keysOf(old)
	newKeys, newIs := keysOf(now)
	if !oldIs && !newIs {
		d.add(path, old, now)
		return
	}
	if oldIs != newIs || fmt.Sprintf("%T", old) != fmt.Sprintf("%T", now) {
		// The two are of different sorts: the old members are removed, and the new ones are
		// added.
		d.all(path, old, func(v any) (any, any) { return v, none{} })
		d.all(path, now, func(v any) (any, any) { return none{}, v })
		return
	}
	_, lists := old.([]any)
	for _, key := range union(oldKeys, newKeys, lists) {
		d.compare(at(path, key), child(old, key), child(now, key))
	}
}

// all adds every member of a value. place puts a member on the side of the old or of the new
// value.
func (d *differ) all(path string, v any, place func(any) (old, now any)) {
	keys, is := keysOf(v)
	if !is {
		if _, absent := v.(none); !absent {
			old, now := place(v)
			d.add(path, old, now)
		}
		return
	}
	for _, key := range keys {
		d.all(at(path, key), child(v, key), place)
	}
}

// add records a member if it differs.
func (d *differ) add(path string, old, now any) {
	before, cutBefore := value(old)
	after, cutAfter := value(now)
	if bytes.Equal(before, after) && !cutBefore && !cutAfter || (cutBefore && cutAfter && old == now) {
		return
	}
	if path == "" {
		return // a resource without members
	}
	if len(d.members) >= MaxMembers || len(path) > MaxPath {
		d.more++
		return
	}
	m := store.Member{Path: path, Secret: Secret(d.kind, path)}
	if !m.Secret {
		m.Old, m.New, m.Cut = before, after, cutBefore || cutAfter
	}
	d.members = append(d.members, m)
}

// keysOf lists the keys of a container in order, and reports whether it is a container that
// is not empty.
func keysOf(v any) (keys []string, is bool) {
	switch v := v.(type) {
	case map[string]any:
		keys = slices.Sorted(maps.Keys(v))
	case []any:
		for i := range v {
			keys = append(keys, strconv.Itoa(i))
		}
	}
	return keys, len(keys) > 0
}

// union lists the keys of two containers of the same sort. Those of lists stay in numerical
// order. Writers wait while it runs, and lists may be as long as a body allows.
func union(a, b []string, lists bool) []string {
	if lists {
		return slices.MaxFunc([][]string{a, b}, func(a, b []string) int { return len(a) - len(b) })
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// at returns the path of a member. A path that is too long to be recorded does not grow
// further: if each member below it copied a long name, a body would cost its length times
// its members.
func at(path, key string) string {
	if len(path) > MaxPath {
		return path
	}
	return path + "/" + escape(key)
}

func child(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		if c, ok := v[key]; ok {
			return c
		}
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i < len(v) {
			return v[i]
		}
	}
	return none{}
}

// value returns the recorded form of a leaf, or nil for a missing one.
func value(v any) (raw json.RawMessage, cut bool) {
	if _, absent := v.(none); absent {
		return nil, false
	}
	if text, ok := v.(string); ok {
		v, cut = shorten(text)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, true // not a JSON value, which cannot happen
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), cut
}

// shorten cuts a text that is too long, between two characters.
func shorten(text string) (short string, cut bool) {
	if len(text) <= MaxValue {
		return text, false
	}
	end := MaxValue
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], true
}

// escape escapes a key according to RFC 6901 section 3.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// Secret reports whether the values of a member must not be kept.
func Secret(k *model.Kind, path string) bool {
	return k.Conceals(path)
}

// Difference tells in which members two resources differ.
type Difference struct {
	// Title is what people call the resource if its name is an id. Otherwise it is empty.
	Title   string
	Members []store.Member
	// More counts the members beyond the limits.
	More int
}

// Between compares two resources of a kind. nil means that the resource does not exist.
func Between(old, now *model.Resource) (Difference, error) {
	before, err := tree(old)
	if err != nil {
		return Difference{}, err
	}
	after, err := tree(now)
	if err != nil {
		return Difference{}, err
	}
	d := &differ{}
	switch {
	case old == nil:
		d.kind = now.Kind
		d.all("", after, func(v any) (any, any) { return none{}, v })
	case now == nil:
		d.kind = old.Kind
		d.all("", before, func(v any) (any, any) { return v, none{} })
		after = before
	default:
		d.kind = now.Kind
		if now.Kind.Schema != nil && !old.Created.Equal(now.Created) {
			d.add("/"+model.FieldCreated, old.CreatedAt(), now.CreatedAt())
		}
		d.compare("", before, after)
	}
	return Difference{title(d.kind, after), d.members, d.more}, nil
}

// title returns the first member by which people know an entity.
func title(k *model.Kind, entity any) string {
	m, ok := entity.(map[string]any)
	if k.Schema == nil || !ok {
		return ""
	}
	for _, name := range []string{k.Schema.Key, "name"} {
		if text, ok := m[name].(string); ok && text != "" && !Secret(k, "/"+name) {
			text, _ = shorten(text)
			return text
		}
	}
	return ""
}
