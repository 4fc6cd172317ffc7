package census

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// plainly does what a search does, by looking at each row of a map.
func plainly(rows map[string]*Listed, s Search) (found Found) {
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		l := rows[name]
		switch {
		case !strings.Contains(name, s.Part):
		case l.Unread != nil && (s.Known || s.Accepts != nil):
			found.Unread = append(found.Unread, l.Unread)
		case s.Known && !l.Known, s.Accepts != nil && !s.Accepts(l.Traits):
		default:
			if found.Total++; found.Total > s.Skip && len(found.Page) < s.Limit {
				found.Page = append(found.Page, model.Key{Kind: mesh.Dataplanes.Name, Scope: "m", Name: name})
			}
		}
	}
	return found
}

func search(blocks []*block, s Search) Found {
	in := searching{Search: s, judged: map[*Traits]bool{}}
	for _, b := range blocks {
		in.block("m", b)
	}
	return in.Found
}

// searches are of all sorts. Each is asked for pages at several places.
func searches(total int) (out []Search) {
	third := func(t *Traits) bool { return t.Gateway == "3" }
	for _, s := range []Search{{}, {Part: "77"}, {Part: "no such"}, {Part: "\n"}, {Known: true}, {Accepts: third}, {Known: true, Accepts: third, Part: "1"}, {Accepts: func(*Traits) bool { return false }}} {
		for _, skip := range []int{0, total / 20, total / 2, total - 1, total + 1} {
			s.Kind, s.Skip, s.Limit = mesh.Dataplanes, max(0, skip), 20
			out = append(out, s)
		}
	}
	return out
}

// TestSearchesOfARoll: whatever comes, changes and goes, a search finds what looking at each row finds,
// and what was got to read before a change stays as it was.
func TestSearchesOfARoll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	d, rows := newDirectory(), map[string]*Listed{}
	unread := errors.New("unreadable")
	check := func(when string, blocks []*block, rows map[string]*Listed) {
		t.Helper()
		for i, s := range searches(len(rows)) {
			want, got := plainly(rows, s), search(blocks, s)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateErrors()); diff != "" {
				t.Fatalf("%s, search %d (-want +got):\n%s", when, i, diff)
			}
		}
	}
	var before []*block
	var then map[string]*Listed
	for round := range 60 {
		come := []int{10, 9, 5, 1, 0, 10}[round/10] // of ten changes so many are of something that comes
		for range 300 {
			name := fmt.Sprintf("web-%04d", rnd.IntN(3000))
			l := &Listed{Name: name, Traits: &Traits{Gateway: fmt.Sprint(rnd.IntN(5))}, Known: rnd.IntN(4) > 0}
			switch {
			case rnd.IntN(10) >= come:
				d.put("m", name, nil)
				delete(rows, name)
				continue
			case rnd.IntN(500) == 0:
				l.Unread = unread
			}
			d.put("m", name, l)
			rows[name] = l
			if rnd.IntN(5) == 0 {
				d.known("m", name, false)
				other := *l
				other.Known = false
				rows[name] = &other
			}
		}
		now := d.read([]string{"m"})[0]
		check("now", now, rows)
		check("what was read before", before, then)
		before, then = now, maps.Clone(rows)
		if most := 2 * len(rows) / (maxBlock / 4); len(now) > most+2 {
			t.Fatalf("%d blocks of %d rows", len(now), len(rows))
		}
	}
	for name := range rows {
		d.put("m", name, nil)
	}
	if len(d.meshes) != 0 || len(d.traits) != 0 {
		t.Errorf("%d meshes and %d traits are left", len(d.meshes), len(d.traits))
	}
}
