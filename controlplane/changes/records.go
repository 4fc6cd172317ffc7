package changes

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxNamed is the number of credentials of a kind that one commit records by name. It only
// counts the others. Otherwise, deleting a consumer with all its tokens would push
// everything else out of the records.
const maxNamed = 20

// Recorded reports whether changes of a kind by an actor are recorded; see the package
// comment.
func Recorded(k *model.Kind, who model.Actor) bool {
	if k.Class == model.Config {
		return true
	}
	return k.Class == model.Credential && (k.Announce != model.AnnounceNone || k.Recorded) && who.Kind != model.ActorNode
}

// group is the key by which credentials of a commit are counted.
type group struct {
	kind, scope string
	op          store.Op
	cause       model.Key
}

// Entry is a record with the resource before and after. Both are nil in a record that sums up several.
type Entry struct {
	Record   store.ChangeRecord
	Old, New *model.Resource
}

// Records returns the records of a transaction's changes; see [Entries].
func Records(list []store.Change, who model.Actor, origin model.Origin, subject model.Key) ([]store.ChangeRecord, error) {
	entries, err := Entries(list, who, origin, subject)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	out := make([]store.ChangeRecord, len(entries))
	for i := range entries {
		out[i] = entries[i].Record
	}
	return out, nil
}

// Entries returns the records of a transaction's changes. An update by a node that changes
// nothing has no record, and neither has what strangers do. subject is the resource that the
// request was about, and becomes the cause of the other changes. It is empty if the request was
// about all of them.
func Entries(list []store.Change, who model.Actor, origin model.Origin, subject model.Key) ([]Entry, error) {
	if origin == model.OriginStranger {
		return nil, nil
	}
	var out []Entry
	named := map[group]int{}
	counted := map[group]int{} // index in out
	for i := range list {
		c := &list[i]
		r := c.New
		if r == nil {
			r = c.Old
		}
		if c.Ended || !Recorded(r.Kind, who) {
			continue
		}
		rec := store.ChangeRecord{
			Actor: model.Actor{Kind: who.Kind, Name: who.Name}, Origin: origin, Op: c.Op,
			Key: r.Key(), Scoping: r.Kind.Scoping, Sealed: r.Kind.Sealed, Fleeting: r.Kind.Fleeting, Cause: c.Cause,
		}
		if rec.Cause == nil && subject.Kind != "" && subject != rec.Key {
			rec.Cause = &subject
		}
		if g := groupOf(&rec); r.Kind.Class == model.Credential {
			if named[g]++; named[g] > maxNamed {
				at, begun := counted[g]
				if !begun {
					at = len(out)
					counted[g] = at
					rec.Key.Name = ""
					out = append(out, Entry{Record: rec})
				}
				out[at].Record.Count++
				continue
			}
		}
		d, err := Between(c.Old, c.New)
		if err != nil {
			return nil, err
		}
		if who.Kind == model.ActorNode && c.Op == store.Updated && len(d.Members) == 0 && d.More == 0 {
			continue // it has repeated what is known
		}
		rec.Title, rec.Members, rec.More = d.Title, d.Members, d.More
		out = append(out, Entry{rec, c.Old, c.New})
	}
	return out, nil
}

func groupOf(r *store.ChangeRecord) group {
	g := group{kind: r.Key.Kind, scope: r.Key.Scope, op: r.Op}
	if r.Cause != nil {
		g.cause = *r.Cause
	}
	return g
}
