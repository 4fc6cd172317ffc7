package cloudapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// paging is how a collection is cut into pages.
type paging int

const (
	// byCursor pages have a path to the next and to the previous one.
	byCursor paging = iota
	// byNumber pages are numbered from 1, and the total is known.
	byNumber
)

// The sizes of pages.
const (
	defaultSize = 10
	maxSize     = 100
)

// The parameters of pages.
const (
	argSize   = "page[size]"
	argAfter  = "page[after]"
	argBefore = "page[before]"
	argNumber = "page[number]"
)

// wanted is what a list was asked for.
type wanted struct {
	size, number  int
	after, before string
	filters       []filter
	order         []order
	labels        []label
}

func (s served) list(w http.ResponseWriter, r *http.Request) { s.listOf(w, r, store.Query{}) }

// listOf answers with those of a query.
func (s served) listOf(w http.ResponseWriter, r *http.Request, of store.Query) {
	query, err := httpkit.Query(r)
	var want wanted
	if err == nil {
		want, err = s.wanted(query)
	}
	var rows []*model.Resource
	if err == nil {
		err = s.api.Store.View(r.Context(), func(reader store.Reader) error {
			rows, err = reader.List(s.Kind, of)
			return err
		})
	}
	if err != nil {
		s.api.fail(w, r, err, s.Collection)
		return
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(res *model.Resource) bool { return !want.selects(res) })
	want.sort(rows)
	page, meta := s.cut(rows, want, r.URL)
	data := make([]map[string]any, len(page))
	for i, res := range page {
		if data[i], err = s.document(res); err != nil {
			s.api.fail(w, r, err, s.Collection)
			return
		}
	}
	if err := httpkit.WriteJSON(w, http.StatusOK, map[string]any{"data": data, "meta": meta}); err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
}

// wanted reads the parameters of a list: those that its contract describes.
func (s served) wanted(query url.Values) (want wanted, err error) {
	want = wanted{size: defaultSize, number: 1}
	known := s.parameters()
	err = readQuery(query, func(name string) (parameter, bool) {
		described := slices.ContainsFunc(known, func(p httpkit.Parameter) bool { return p.Name == name })
		switch {
		case !described:
			return nil, false
		case name == argSort:
			return func(_, value string) []invalid { return s.sorting(value, &want.order) }, false
		case name == argLabels:
			return func(_, value string) []invalid { want.labels = labelsOf(value); return nil }, false
		case name == argSize:
			return numeric(maxSize, &want.size), false
		case name == argNumber:
			return numeric(1<<31-1, &want.number), false
		case name == argAfter:
			return cursor(&want.after), false
		case name == argBefore:
			return cursor(&want.before), false
		}
		return func(name, value string) []invalid {
			want.filters = append(want.filters, s.filterFrom(name, value))
			return nil
		}, true
	})
	if err == nil && query.Has(argAfter) && query.Has(argBefore) {
		err = refused(invalid{Field: argBefore, Reason: "cannot be given beside " + argAfter, Rule: ruleInvalid, Source: fromQuery})
	}
	return want, err
}

// The cursors of the ends of a list: no resource has a name beyond them. They follow an empty page.
const (
	beforeAll = "00000000-0000-0000-0000-000000000000"
	afterAll  = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// cut returns a page and what is said about it.
func (s served) cut(rows []*model.Resource, want wanted, at *url.URL) ([]*model.Resource, map[string]any) {
	if s.Paging == byNumber {
		first := min((want.number-1)*want.size, len(rows))
		return rows[first:min(first+want.size, len(rows))], map[string]any{
			"page": map[string]any{"number": want.number, "size": want.size, "total": len(rows)},
		}
	}
	from, to := 0, len(rows)
	switch {
	case want.after != "":
		from, _ = slices.BinarySearchFunc(rows, want.after+"\x00", byName)
		to = min(from+want.size, to)
	case want.before != "":
		to, _ = slices.BinarySearchFunc(rows, want.before, byName)
		from = max(0, to-want.size)
	default:
		to = min(want.size, to)
	}
	meta := map[string]any{"size": want.size, "next": nil, "previous": nil}
	switch {
	case to == len(rows): // there is nothing after it
	case to > from:
		meta["next"] = want.path(at, argAfter, rows[to-1].Name)
	case to == 0: // what was before the cursor is gone
		meta["next"] = want.path(at, argAfter, beforeAll)
	}
	switch {
	case from == 0: // there is nothing before it
	case from < len(rows):
		meta["previous"] = want.path(at, argBefore, rows[from].Name)
	default: // what was after the cursor is gone
		meta["previous"] = want.path(at, argBefore, afterAll)
	}
	return rows[from:to], meta
}

// path is that of the page before or after a resource, of the same list.
func (w wanted) path(at *url.URL, direction, name string) string {
	query := at.Query()
	query.Del(argAfter)
	query.Del(argBefore)
	query.Set(direction, base64.RawURLEncoding.EncodeToString([]byte(name)))
	query.Set(argSize, strconv.Itoa(w.size))
	return at.Path + "?" + query.Encode()
}

func byName(res *model.Resource, name string) int { return strings.Compare(res.Name, name) }
