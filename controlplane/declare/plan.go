package declare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The actions of operations.
const (
	Creating = "creating"
	Updating = "updating"
	Deleting = "deleting"
)

// Op is one write.
type Op struct {
	Action string
	// Kind and Name are for programs, Label is for people.
	Kind, Name, Label string
	// Level orders operations: creations and updates upwards, deletions downwards.
	Level int
	// Path is where to PUT Body or to DELETE.
	Path string
	Body any
	// ID is the id of what is written, Needs are the ids that must be there before.
	ID    string
	Needs []string
	// Old and New are shown, so secrets in them are masked. Changes are the members that
	// differ.
	Old, New map[string]any
	Changes  []Change
	// kind, is and wants are for the runner: the values as they are and as they should be, in
	// clear. secrets are the texts among them that nobody may see.
	kind      *model.Kind
	is, wants map[string]any
	secrets   []string
	// dryRun is what the API has said of a write that was only tried; nil otherwise.
	dryRun *dryRun
	// unasked is whether nobody knows that there is anything to do.
	unasked bool
	// check, if set, is where the body can be checked before what it needs is there.
	check string
}

// Change is a member of an update. Secret values are masked.
type Change struct {
	Name     string
	Old, New any
}

// Plan is what has to be done, in order.
type Plan struct {
	Ops      []*Op
	Warnings []string
}

// errUnasked says that a difference may be none.
var errUnasked = errors.New("nobody knows whether there are differences, because the control plane had no time to say what it would store of the documents that differ: ask again")

// known returns an error if there may be nothing to do, because all that differs is what was not asked about.
func (p *Plan) known() error {
	if len(p.Ops) > 0 && !slices.ContainsFunc(p.Ops, func(o *Op) bool { return !o.unasked }) {
		return errUnasked
	}
	return nil
}

// planner compares what a gateway holds with what it should hold.
type planner struct {
	kinds           []*model.Kind
	schemas         *Schemas
	current, wanted *State
	masked          []string
	plan            *Plan
}

// compare returns the operations that make the gateway hold what is wanted. Access tokens are
// never deleted, because they are not configuration: whoever holds one would be locked out.
func (p *planner) compare(ctx context.Context) (*Plan, error) {
	p.plan = &Plan{}
	for _, e := range p.wanted.Entities {
		f, err := p.schemas.of(ctx, e.Kind, e.Values)
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", label(e, p.wanted), err)
		}
		f.fill(e.Values)
		is := p.current.get(e.Kind.Name, e.ID)
		if is == nil {
			p.plan.Ops = append(p.plan.Ops, p.op(Creating, e, nil))
			continue
		}
		for _, name := range settle(f, e, is) {
			p.plan.Warnings = append(p.plan.Warnings, fmt.Sprintf("%s keeps its %s, which the file does not have: null would remove them", label(e, p.wanted), name))
		}
		clearConfig(e.Values, is.Values)
		if names := f.differing(ignoring(e.Values), ignoring(is.Values)); len(names) > 0 {
			op := p.op(Updating, e, is)
			for _, name := range names {
				op.Changes = append(op.Changes, masking(e.Kind, p.masked, e.replaced...).changes(name, is.Values[name], e.Values[name])...)
			}
			p.plan.Ops = append(p.plan.Ops, op)
		}
	}
	for _, is := range p.current.Entities {
		if p.wanted.get(is.Kind.Name, is.ID) == nil && is.Kind != gateway.Tokens {
			p.plan.Ops = append(p.plan.Ops, p.op(Deleting, nil, is))
		}
	}
	p.plan.sort()
	return p.plan, nil
}

// sort orders the operations as they are carried out.
func (p *Plan) sort() {
	slices.SortStableFunc(p.Ops, func(a, b *Op) int {
		deletes := func(o *Op) int {
			if o.Action == Deleting {
				return 1
			}
			return 0
		}
		if d := cmp.Compare(deletes(a), deletes(b)); d != 0 {
			return d
		}
		return cmp.Compare(a.step(), b.step())
	})
}

// step is a number in whose order operations are carried out.
func (o *Op) step() int {
	switch o.Action {
	case Updating: // first, because it may free a name
		return 2 * o.Level
	case Creating:
		return 2*o.Level + 1
	}
	return -o.Level
}

// settle takes over from the gateway what the API has made by itself of what is wanted. It
// returns the fields that stay although the file does not have them: other tools do not know
// them. A second secret does not stay: whoever takes it out of the file wants it to be over.
func settle(f fields, e, is *Entity) (kept []string) {
	f.adopt(e.Values, is.Values)
	for i := range e.Kind.Schema.Fields {
		described := &e.Kind.Schema.Fields[i]
		if _, given := e.Values[described.Name]; given || !described.Keep || described.Hidden || is.Values[described.Name] == nil {
			continue
		}
		e.Values[described.Name] = nil
		if described.Name != secondarySecret {
			e.Values[described.Name] = is.Values[described.Name]
			kept = append(kept, described.Name)
		}
	}
	if e.Kind == gateway.Applications && e.Values["hash_secret"] == true && is.Values["hash_secret"] == true {
		for _, name := range []string{"client_secret", secondarySecret} {
			clear, hash := text(e.Values, name), text(is.Values, name)
			if clear != "" && gateway.VerifySecret(hash, clear) {
				e.Values[name] = hash
			}
		}
	}
	// A lifetime runs down by itself, so that only a longer one than the file says is another.
	if stated, left := seconds(e.Values["ttl"]), seconds(is.Values["ttl"]); left > 0 && stated+rounding >= left {
		e.Values["ttl"] = is.Values["ttl"]
	} else if left > 0 && stated < 0 {
		e.Values["ttl"] = nil // without a word the API would keep it
	}
	return kept
}

// clearConfig says of members of a configuration that the file does not have that they are
// nothing: the API would keep some.
func clearConfig(values, current map[string]any) {
	config, _ := values["config"].(map[string]any)
	was, _ := current["config"].(map[string]any)
	for name := range was {
		if _, given := config[name]; !given && was[name] != nil && config != nil {
			config[name] = nil
		}
	}
}

// rounding is by how many seconds a lifetime may differ without being another one.
const rounding = 5

// seconds returns a lifetime; without one it is one that ends long before any other.
func seconds(ttl any) int64 {
	switch ttl := ttl.(type) {
	case int64:
		return ttl
	case float64:
		return int64(ttl)
	}
	return -rounding
}

// secondarySecret is the field of the secret that is good beside the first one for a while.
const secondarySecret = "secondary_secret"

// ignoring returns values without those that nobody wants to be equal.
func ignoring(values map[string]any) map[string]any {
	out := maps.Clone(values)
	delete(out, model.FieldCreated)
	delete(out, model.FieldUpdated)
	return out
}

// op returns an operation about an entity.
func (p *planner) op(action string, e, is *Entity) *Op {
	about := e
	if e == nil {
		about = is
	}
	o := &Op{
		Action: action, Kind: shortName(about.Kind), Name: title(about), Label: label(about, p.wanted, p.current),
		Level: levelOf(about.Kind, p.kinds), Path: "/" + about.Kind.Path + "/" + about.ID, ID: about.ID,
		check: "/schemas/" + about.Kind.Path + "/validate", kind: about.Kind,
		secrets: slices.Clone(p.masked),
	}
	if is != nil {
		o.is, o.secrets = is.Values, append(o.secrets, masking(is.Kind, nil).secrets("", is.Values)...)
		o.Old = masking(is.Kind, p.masked, about.replaced...).object(is.Values)
	}
	if e != nil {
		body := maps.Clone(e.Values)
		body[model.FieldID] = e.ID
		o.wants, o.secrets = e.Values, append(o.secrets, masking(e.Kind, nil).secrets("", e.Values)...)
		o.Body, o.New = body, masking(e.Kind, p.masked, e.replaced...).object(e.Values)
		for i := range e.Kind.Refs {
			if id := refID(e.Values, e.Kind.Refs[i].Name); id != "" {
				o.Needs = append(o.Needs, id)
			}
		}
		for i := range e.Kind.Holds {
			list, _ := e.Values[e.Kind.Holds[i].Name].([]any)
			o.Needs = append(o.Needs, words(list)...)
		}
	}
	return o
}

// age subtracts from the lifetimes in each file what has passed since it was written. What is
// over is left out.
func (d *Document) age(now time.Time) {
	kept := d.Entities[:0:0]
	for _, e := range d.Entities {
		at, dumped := d.dumped[e.File]
		if ttl, ok := e.Values["ttl"].(int64); ok && dumped {
			if ttl -= int64(max(0, now.Sub(at)) / time.Second); ttl < 1 {
				continue
			}
			e.Values = maps.Clone(e.Values)
			e.Values["ttl"] = ttl
		}
		kept = append(kept, e)
	}
	d.Entities = kept
}
