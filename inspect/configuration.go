package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/xds/resource"
)

// holdings are the three configurations of a node.
type holdings struct {
	// desired is what the planner makes of what is stored.
	desired *resource.Set
	Known
}

// configuration is a configuration of a node.
type configuration struct {
	// XDS has the resources by type and name. All served types are there.
	XDS map[string]map[string]json.RawMessage `json:"xds"`
	// Diff is the JSON patch that makes the acknowledged configuration into XDS. It is nil
	// unless it was asked for.
	Diff *[]nodes.Edit `json:"diff,omitempty"`
}

// configuration returns what the node has acknowledged or, with shadow, what is desired.
func (s holdings) configuration(shadow, diff bool) (configuration, error) {
	doc := configuration{XDS: map[string]map[string]json.RawMessage{}}
	edits := []nodes.Edit{}
	for _, t := range resource.Types {
		held, shown := s.acknowledged(t), s.acknowledged(t)
		if shadow {
			shown = entriesOf(s.desired, t)
		}
		doc.XDS[string(t)] = make(map[string]json.RawMessage, len(shown))
		for name, e := range shown {
			text, err := e.show()
			if err != nil {
				return doc, err
			}
			doc.XDS[string(t)][name] = text
		}
		if !diff {
			continue
		}
		for _, name := range namesOf(held, shown) {
			more, err := differenceOf(pointer(string(t))+pointer(name), held[name], shown[name])
			if err != nil {
				return doc, err
			}
			edits = append(edits, more...)
		}
	}
	if diff {
		doc.Diff = &edits
	}
	return doc, nil
}

// compare lists all resources of the three configurations.
func (s holdings) compare(diff bool) (out []nodes.Compared, err error) {
	out = []nodes.Compared{}
	for _, t := range resource.Types {
		desired, sent, held := entriesOf(s.desired, t), entriesOf(s.Set, t), s.acknowledged(t)
		refused := s.refusals(t)
		for _, name := range namesOf(desired, sent, held, refused) {
			c := nodes.Compared{
				Type: string(t), Name: name, Desired: desired[name].version, Sent: sent[name].version,
				Acknowledged: held[name].version, State: Due,
			}
			switch why, rejected := refused[name]; {
			case rejected:
				c.State, c.Error = Rejected, why.version
			case c.Desired == c.Acknowledged && c.Desired == c.Sent:
				c.State = Acknowledged
			case c.Desired == c.Sent:
				c.State = Sent
			}
			if diff {
				if c.Diff, err = differenceOf("", held[name], desired[name]); err != nil {
					return nil, err
				}
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// entry is a resource of a set, or a secret that the node may ask for. The zero value stands
// for none.
type entry struct {
	typ           resource.TypeURL
	name, version string
	// body is not set for secrets.
	body *resource.Resource
}

// entriesOf returns the resources of a type by name.
func entriesOf(s *resource.Set, t resource.TypeURL) map[string]entry {
	out := make(map[string]entry, s.Len(t))
	for r := range s.Each(t) {
		e := entry{typ: t, name: r.Name, version: r.Version, body: r}
		if t == resource.Secret {
			e.body = nil
		}
		out[r.Name] = e
	}
	if t == resource.Secret {
		for _, name := range s.Secrets() {
			if _, own := out[name]; !own {
				out[name] = secretOf(s, name)
			}
		}
	}
	return out
}

// secretOf returns a secret that a node may ask for.
func secretOf(s *resource.Set, name string) entry {
	generation, _ := s.Generation(name)
	return entry{typ: resource.Secret, name: name, version: cmp.Or(generation, "-")}
}

// acknowledged returns the resources of a type that the node has answered and does not refuse.
func (s holdings) acknowledged(t resource.TypeURL) map[string]entry {
	out := entriesOf(s.Answered, t)
	for name := range s.refusals(t) {
		delete(out, name)
	}
	return out
}

// refusals returns, in place of versions, why the node refuses resources of a type.
func (s holdings) refusals(t resource.TypeURL) map[string]entry {
	out := map[string]entry{}
	for _, r := range s.Refused {
		if strings.HasSuffix(string(t), "."+r.Type) {
			for _, name := range r.Resources {
				out[name] = entry{version: r.Error}
			}
		}
	}
	return out
}

// namesOf returns all names in order.
func namesOf(all ...map[string]entry) []string {
	names := map[string]bool{}
	for _, entries := range all {
		for name := range entries {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// show returns a resource as JSON without what is concealed. Secrets have only their names and
// generations.
func (e entry) show() (json.RawMessage, error) {
	if e.body == nil {
		return json.Marshal(struct {
			Type       string `json:"@type"`
			Name       string `json:"name"`
			Generation string `json:"generation"`
		}{string(e.typ), e.name, e.version})
	}
	text, err := protojson.Marshal(&anypb.Any{TypeUrl: string(e.typ), Value: e.body.Body})
	if err != nil {
		return nil, fmt.Errorf("show %s: %w", e.name, err)
	}
	if text, err = Conceal(text); err != nil {
		return nil, fmt.Errorf("show %s: %w", e.name, err)
	}
	var tidy bytes.Buffer // the spaces of protojson are random
	if err := json.Compact(&tidy, text); err != nil {
		return nil, fmt.Errorf("show %s: %w", e.name, err)
	}
	return tidy.Bytes(), nil
}

// differenceOf returns the edits that make one resource into another. What is concealed is
// taken out before, so no edit can contain it.
func differenceOf(path string, before, after entry) ([]nodes.Edit, error) {
	if before.version == after.version {
		return nil, nil
	}
	var values [2]any
	for i, e := range []entry{before, after} {
		if e.version == "" {
			continue
		}
		text, err := e.show()
		if err != nil {
			return nil, err
		}
		if values[i], err = decode(text); err != nil {
			return nil, fmt.Errorf("show %s: %w", e.name, err)
		}
	}
	switch {
	case after.version == "":
		return []nodes.Edit{{Op: "remove", Path: path}}, nil
	case before.version == "":
		return []nodes.Edit{{Op: "add", Path: path, Value: encoded(values[1])}}, nil
	}
	return difference(path, values[0], values[1]), nil
}

// known returns what a node was sent and has acknowledged. refused is what it refuses.
func (d *Dumps) known(node string, refused []insight.Rejected) holdings {
	s := holdings{Known: Known{Refused: refused}}
	s.Set, s.Answered = d.o.Last(node)
	return s
}
