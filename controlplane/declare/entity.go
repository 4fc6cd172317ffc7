package declare

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Entity is an entity of a gateway in the form in which its API shows it. References are
// objects with an id.
type Entity struct {
	Kind   *model.Kind
	ID     string
	Values map[string]any
	// where says in which file an entity stands, stated that the file gives its id.
	where  string
	stated bool
	// replaced are the paths of values from the environment, which are not shown.
	replaced []string
}

// State is what a gateway holds, or should hold.
type State struct {
	// Entities are in the order of [order].
	Entities []*Entity
	byID     map[string]*Entity
	byKey    map[string]*Entity
	// twins are certificates that say the same as one in byKey, by its key.
	twins map[string][]*Entity
	// byText finds entities by the fields that references may name them by.
	byText map[string]*Entity
}

func newState() *State {
	return &State{byID: map[string]*Entity{}, byKey: map[string]*Entity{}, twins: map[string][]*Entity{}, byText: map[string]*Entity{}}
}

// add adds an entity. It returns the one that has the same id or natural key already, unless
// both are certificates with stated ids: the API takes a certificate twice.
func (s *State) add(e *Entity) (twin *Entity) {
	id, key := e.Kind.Name+"/"+e.ID, naturalKey(e)
	if twin = s.byID[id]; twin != nil {
		return twin
	}
	if other := s.byKey[key]; other != nil && key != "" {
		if e.Kind != gateway.Certificates || !e.stated || !other.stated {
			return other
		}
		s.twins[key], key = append(s.twins[key], e), ""
	}
	s.byID[id] = e
	for _, field := range []string{e.Kind.Schema.Key, "name"} {
		if value := text(e.Values, field); value != "" {
			s.byText[e.Kind.Name+"\x00"+field+"\x00"+value] = e
		}
	}
	if key != "" {
		s.byKey[key] = e
	}
	s.Entities = append(s.Entities, e)
	return nil
}

// holders returns the entities with a natural key.
func (s *State) holders(key string) []*Entity {
	if s.byKey[key] == nil || key == "" {
		return nil
	}
	return append([]*Entity{s.byKey[key]}, s.twins[key]...)
}

// get returns the entity of a kind with an id, or nil.
func (s *State) get(kind, id string) *Entity { return s.byID[kind+"/"+id] }

// target returns the entity that a reference leads to, or nil.
func (s *State) target(e *Entity, ref *model.Ref) *Entity {
	return s.get(ref.To, refID(e.Values, ref.Name))
}

// sort brings the entities into an order that depends on nothing but what they are.
func (s *State) sort(kinds []*model.Kind) {
	place := map[*model.Kind]int{}
	for i, k := range kinds {
		place[k] = i
	}
	slices.SortStableFunc(s.Entities, func(a, b *Entity) int {
		return cmp.Or(cmp.Compare(place[a.Kind], place[b.Kind]), strings.Compare(s.sortKey(a), s.sortKey(b)))
	})
}

// sortKey is made of names rather than ids, which differ from gateway to gateway.
func (s *State) sortKey(e *Entity) string {
	parts := []string{text(e.Values, "name"), keyText(e), text(e.Values, gateway.IndexCustomID)}
	if e.Kind.Schema.Key == "" { // a certificate, whose natural key has no ids
		parts = append(parts, naturalKey(e))
	}
	for i := range e.Kind.Refs {
		if to := s.target(e, &e.Kind.Refs[i]); to != nil {
			parts = append(parts, keyText(to))
		}
	}
	return strings.Join(append(parts, text(e.Values, "instance_name"), e.ID), "\x00")
}

// refID returns the id that a reference holds, or nothing.
func refID(values map[string]any, name string) string {
	ref, _ := values[name].(map[string]any)
	return text(ref, model.FieldID)
}

func text(values map[string]any, name string) string {
	s, _ := values[name].(string)
	return s
}

// keyText returns the value of the key of an entity's kind.
func keyText(e *Entity) string {
	if e.Kind.Schema.Key == "" {
		return ""
	}
	return text(e.Values, e.Kind.Schema.Key)
}

// naturalKey returns what makes an entity the same one in the file and in the gateway,
// whatever its id is. Nothing, if only the id does.
func naturalKey(e *Entity) string {
	parts := []string{e.Kind.Name}
	switch s := e.Kind.Schema; {
	case e.Kind == gateway.Plugins:
		parts = append(parts, text(e.Values, "name"), refID(e.Values, gateway.RefRoute), refID(e.Values, gateway.RefService), refID(e.Values, gateway.RefConsumer))
	case e.Kind == gateway.Certificates || e.Kind == gateway.CACertificates:
		sum := sha256.Sum256([]byte(strings.Join(strings.Fields(text(e.Values, "cert")), "")))
		parts = append(parts, hex.EncodeToString(sum[:]))
	case keyText(e) != "":
		key := keyText(e)
		if s.KeyIndex != nil {
			key = s.KeyIndex(key)
		}
		parts = append(parts, s.Key, refID(e.Values, s.KeyUnder), key)
	case e.Kind == gateway.Consumers && text(e.Values, gateway.IndexCustomID) != "":
		parts = append(parts, gateway.IndexCustomID, text(e.Values, gateway.IndexCustomID))
	default:
		return ""
	}
	return strings.Join(parts, "\x00")
}

// short are the names of kinds in plans, where they are not those of the kinds.
var short = map[*model.Kind]string{gateway.Applications: "oauth2-cred", gateway.Keys: "key-auth", gateway.Tokens: "oauth2-token"}

func shortName(k *model.Kind) string { return cmp.Or(short[k], k.Name) }

// title returns the text by which people know an entity. It is never a secret.
func title(e *Entity) string {
	name := text(e.Values, "name")
	if key := e.Kind.Schema.Key; name == "" && key != "" && !e.Kind.Conceals("/"+key) {
		name = keyText(e)
	}
	if e.Kind == gateway.Consumers {
		name = cmp.Or(name, text(e.Values, gateway.IndexCustomID))
	}
	return cmp.Or(name, e.ID)
}

// label returns the name of an entity with that of what it belongs to. states are asked in
// their order.
func label(e *Entity, states ...*State) string {
	name := shortName(e.Kind) + " " + title(e)
	var owners []string
	for i := range e.Kind.Refs {
		ref := &e.Kind.Refs[i]
		id := refID(e.Values, ref.Name)
		if id == "" || ref.Name == gateway.RefClientCertificate {
			continue
		}
		owner := id
		for _, s := range states {
			if to := s.get(ref.To, id); to != nil {
				owner = title(to)
				break
			}
		}
		owners = append(owners, ref.Name+" "+owner)
	}
	switch {
	case len(owners) > 0 && belongs(e.Kind):
		return name + " for " + strings.Join(owners, " and ")
	case e.Kind == gateway.Plugins:
		return name + " (global)"
	}
	return name
}

// belongs reports whether the entities of a kind are named together with their owners.
func belongs(k *model.Kind) bool {
	return !slices.Contains([]*model.Kind{gateway.Routes, gateway.Services, gateway.Upstreams, gateway.SNIs}, k)
}

// order sorts kinds by their levels: a kind comes after those that it refers to.
func order(kinds []*model.Kind) []*model.Kind {
	sorted := slices.Clone(kinds)
	slices.SortStableFunc(sorted, func(a, b *model.Kind) int { return cmp.Compare(levelOf(a, kinds), levelOf(b, kinds)) })
	return sorted
}

// levelOf returns the level of a kind: 1, or one more than that of what it refers to. Kinds
// of one level can be written at the same time.
func levelOf(k *model.Kind, kinds []*model.Kind) int {
	level := 1
	below := func(name string) {
		for _, to := range kinds {
			if to.Name == name && to != k {
				level = max(level, levelOf(to, kinds)+1)
			}
		}
	}
	for i := range k.Refs {
		below(k.Refs[i].To)
	}
	for i := range k.Holds {
		below(k.Holds[i].To)
	}
	return level
}

// Kinds returns the kinds that the tool handles, in the order of their levels. Without
// consumers there are no credentials either.
func Kinds(skipConsumers, tokens bool) []*model.Kind {
	var list []*model.Kind
	for _, k := range gateway.Kinds() {
		ofConsumers := slices.Contains([]*model.Kind{gateway.Consumers, gateway.Applications, gateway.Keys, gateway.Tokens}, k)
		if k.Schema == nil || k.ReadOnly || k == gateway.Tokens && !tokens || skipConsumers && ofConsumers {
			continue
		}
		list = append(list, k)
	}
	return order(list)
}

// plain removes from an entity, as the API shows it, what is no value of it: its id, times,
// second spellings of references, and lists of what refers to it.
func plain(k *model.Kind, shown map[string]any) map[string]any {
	values := maps.Clone(shown)
	for i := range k.Schema.Fields {
		f := &k.Schema.Fields[i]
		if f.Flat != "" {
			delete(values, f.Flat)
		}
		if f.Hidden || f.Inline != nil {
			delete(values, f.Name)
		}
	}
	for _, name := range []string{model.FieldID, model.FieldUpdated} {
		delete(values, name)
	}
	if k != gateway.Tokens {
		delete(values, model.FieldCreated)
	}
	return values
}
