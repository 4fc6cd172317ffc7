package gatewayapi

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The sizes of pages.
const (
	defaultSize = 100
	maxSize     = 1000
)

// page is one page of a collection.
type page struct {
	resources []*model.Resource
	total     int
	// more says that there are resources after last.
	more bool
	// list and last determine the offset of the next page. gaps holds what the pages so far
	// have left out, lacking what this page leaves out.
	list, last string
	gaps       gaps
	lacking    unreadable
}

// source is the source of a list: the union of queries of one kind.
type source struct {
	// list identifies the list; offsets are bound to it.
	list    string
	queries []store.Query
	// keep, if set, selects the results that are shown.
	keep func(*model.Resource) bool
}

// list answers with a page, ordered by id.
func (p place) list(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	var got page
	err = p.api.Store.View(r.Context(), func(reader store.Reader) error {
		got, err = p.page(reader, r, query)
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	p.writePage(w, r, got, query, nil)
}

// from returns the source of a list: the whole collection or, below an owner, the resources
// that refer to it. A place may have a source of its own.
func (p place) from(r store.Reader, request *http.Request) (source, error) {
	if p.sources != nil {
		return p.sources(r, request)
	}
	a := p.address(request)
	q := store.Query{Scope: a.Scope}
	if a.Under != nil {
		owner, err := admit.Lookup(r, a.Under.Address)
		if err != nil {
			return source{}, err
		}
		q.Index, q.Value = a.Under.Ref, owner.Name
	}
	return source{list: a.Kind.Name + "\n" + q.Index + "\n" + q.Value, queries: []store.Query{q}}, nil
}

func (p place) page(r store.Reader, request *http.Request, query url.Values) (page, error) {
	var got page
	from, err := p.from(r, request)
	if err != nil {
		return got, err
	}
	kind := p.collection.Kind
	tags, err := readTags(kind, query)
	if err != nil {
		return got, err
	}
	if err := knownFilters(request, query, nameFilters); err != nil {
		return got, err
	}
	for _, name := range p.collection.Filters {
		if query.Has(name) && !p.nested {
			return p.filtered(r, request, name, query, tags)
		}
	}
	size, err := pageSize(query)
	if err != nil {
		return got, err
	}
	got.list = from.list
	if got.last, got.gaps, err = readCursor(from.list, query.Get("offset")); err != nil {
		return got, err
	}
	if p.collection.Total {
		if got.total, err = from.count(r, kind); err != nil {
			return got, err
		}
	}
	if from, err = tags.narrow(r, kind, from); err != nil {
		return got, err
	}
	from = from.named(request, query)
	rows, err := from.after(r, kind, got.last, size+1)
	if err != nil {
		return got, err
	}
	if len(rows) == 0 && got.gaps.count > 0 {
		return got, p.api.incomplete(got.gaps)
	}
	got.take(rows, size)
	return got, nil
}

// take fills a page with the first of the rows that were read for it.
func (p *page) take(rows []*model.Resource, size int) {
	if p.more = len(rows) > size; p.more {
		rows = rows[:size]
	}
	if len(rows) > 0 {
		p.last = rows[len(rows)-1].Name
	}
	p.resources, p.lacking = readable(rows)
}

// count adds up queries without common results.
func (s source) count(r store.Reader, k *model.Kind) (total int, err error) {
	for _, q := range s.queries {
		n, err := r.Count(k, q)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// after returns the first n results after a name, each once. It reads little more of each
// query than the page needs. The results include rows that cannot be decoded, even if nobody
// can say whether keep would select them.
func (s source) after(r store.Reader, k *model.Kind, name string, n int) ([]*model.Resource, error) {
	chunk := n
	if len(s.queries) > 1 {
		chunk = n/len(s.queries) + 2
	}
	if s.keep != nil {
		chunk = max(chunk, leastChunk) // some rows will be dropped
	}
	runs := make([]*run, len(s.queries))
	for i, q := range s.queries {
		q.After, q.Limit = name, chunk
		runs[i] = &run{query: q}
	}
	out := make([]*model.Resource, 0, n)
	for len(out) < n {
		next, err := least(r, k, runs)
		if err != nil || next == nil {
			return out, err
		}
		if s.keep == nil || store.IsUnread(next) || s.keep(next) {
			out = append(out, next)
		}
	}
	return out, nil
}

// leastChunk is the number of rows that are read at once if a filter may drop some.
const leastChunk = 100

// run is one query of a list that is read in chunks.
type run struct {
	query store.Query
	rows  []*model.Resource
	ended bool
}

// head returns the next row of a run, nil at its end.
func (q *run) head(r store.Reader, k *model.Kind) (*model.Resource, error) {
	if len(q.rows) == 0 && !q.ended {
		rows, err := store.ListAll(r, k, q.query)
		if err != nil {
			return nil, err
		}
		if q.rows, q.ended = rows, len(rows) < q.query.Limit; len(rows) > 0 {
			q.query.After = rows[len(rows)-1].Name
		}
	}
	if len(q.rows) == 0 {
		return nil, nil //nolint:nilnil // nil is the end
	}
	return q.rows[0], nil
}

// least removes the first row in the order of names from all runs that start with it, and
// returns it. It returns nil when all runs have ended.
func least(r store.Reader, k *model.Kind, runs []*run) (*model.Resource, error) {
	var first *model.Resource
	for _, q := range runs {
		head, err := q.head(r, k)
		if err != nil {
			return nil, err
		}
		if head != nil && (first == nil || head.Name < first.Name) {
			first = head
		}
	}
	for _, q := range runs {
		if first != nil && len(q.rows) > 0 && q.rows[0].Name == first.Name {
			q.rows = q.rows[1:]
		}
	}
	return first, nil
}

// filtered returns a page with the resource that has a unique value, if it has the tags and the name.
func (p place) filtered(r store.Reader, request *http.Request, index string, query url.Values, tags tagFilter) (page, error) {
	value := query.Get(index)
	if value == "" {
		return page{}, &httpkit.BodyError{Status: http.StatusBadRequest, Message: index + " must be an unempty string"}
	}
	res, err := r.Find(p.collection.Kind, p.api.scope(request), index, value)
	if fault.Is(err, fault.NotFound) {
		return page{}, nil
	}
	if err != nil {
		return page{}, err
	}
	keep := source{}.named(request, query).keep
	if !tags.admits(p.collection.Kind, res) || keep != nil && !keep(res) {
		return page{}, nil
	}
	return page{resources: []*model.Resource{res}, total: 1}, nil
}

func pageSize(query url.Values) (int, error) {
	bad := func(text string) error {
		return &problem{http.StatusBadRequest, errorBody{Code: 9, Name: "invalid size", Message: text}}
	}
	if !query.Has("size") {
		return defaultSize, nil
	}
	number, err := strconv.ParseFloat(query.Get("size"), 64)
	if err != nil {
		return 0, bad("size must be a number")
	}
	if size := int(number); float64(size) == number && size >= 1 && size <= maxSize {
		return size, nil
	}
	return 0, bad("size must be an integer between 1 and 1000")
}

// writePage answers with a page; complete, if set, adds members to its entities.
func (p place) writePage(w http.ResponseWriter, r *http.Request, got page, query url.Values, complete func(*model.Resource, map[string]any)) {
	data, lacking, err := p.api.entities(r.Context(), got.resources)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	got.lacking = append(got.lacking, lacking...)
	for i := range data {
		if complete != nil {
			complete(got.resources[i], data[i])
		}
	}
	doc := map[string]any{"data": data, "next": nil}
	if p.collection.Total {
		doc["total"] = got.total
	}
	if len(got.lacking) > 0 {
		doc[fieldUnreadable] = p.api.note(r, got.lacking)
		got.gaps = got.gaps.with(p.api.pathsOf(got.lacking))
	}
	if got.last != "" && (got.more || got.gaps.count > 0) {
		offset := cursor(got.list, got.last, got.gaps)
		next := pathOf(r) + "?offset=" + url.QueryEscape(offset)
		if size := query.Get("size"); !p.nested && size != "" {
			next += "&size=" + url.QueryEscape(size)
		}
		if tags := query.Get("tags"); tags != "" {
			next += "&tags=" + url.QueryEscape(tags)
		}
		doc["offset"], doc["next"] = offset, next+nameQuery(r, query)
	}
	reply(w, r, http.StatusOK, doc)
}
