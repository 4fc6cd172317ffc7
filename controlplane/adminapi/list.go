package adminapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Page sizes.
const (
	defaultSize = 100
	maxSize     = 1000
)

// page is one page of a collection.
type page struct {
	resources []*model.Resource
	total     int
	// more is the offset of the next page, or empty.
	more string
}

// source is where a list comes from: the union of queries of one kind.
type source struct {
	// list tells this list apart from others; offsets are bound to it.
	list    string
	queries []store.Query
	// keep, if set, says which of the results are shown.
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

// from is the whole collection or, below an owner, what refers to it, unless the
// place has a source of its own.
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
	for _, name := range p.collection.Filters {
		if query.Has(name) && !p.nested {
			return p.filtered(r, name, query.Get(name))
		}
	}
	kind := p.collection.Kind
	tags, err := readTags(kind, query)
	if err != nil {
		return got, err
	}
	size, err := pageSize(query)
	if err != nil {
		return got, err
	}
	after, err := readCursor(from.list, query.Get("offset"))
	if err != nil {
		return got, err
	}
	if p.collection.Total {
		if got.total, err = from.count(r, kind); err != nil {
			return got, err
		}
	}
	if got.resources, err = tags.narrow(kind, from).after(r, kind, after, size+1); err != nil {
		return got, err
	}
	if len(got.resources) > size {
		got.resources = got.resources[:size]
		got.more = cursor(from.list, got.resources[size-1].Name)
	}
	return got, nil
}

// count adds up queries that have no result in common.
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

// after returns the first n results beyond a name, each once.
func (s source) after(r store.Reader, k *model.Kind, name string, n int) ([]*model.Resource, error) {
	var out []*model.Resource
	for {
		var batch []*model.Resource
		for _, q := range s.queries {
			q.After, q.Limit = name, n
			found, err := r.List(k, q)
			if err != nil {
				return nil, err
			}
			batch = append(batch, found...)
		}
		slices.SortFunc(batch, func(a, b *model.Resource) int { return strings.Compare(a.Name, b.Name) })
		batch = slices.CompactFunc(batch, func(a, b *model.Resource) bool { return a.Name == b.Name })
		batch = batch[:min(len(batch), n)] // what is beyond may have others between
		for _, res := range batch {
			if name = res.Name; s.keep == nil || s.keep(res) {
				out = append(out, res)
			}
		}
		if len(batch) < n || len(out) >= n {
			return out[:min(len(out), n)], nil
		}
	}
}

// filtered is the page of what a unique value names.
func (p place) filtered(r store.Reader, index, value string) (page, error) {
	if value == "" {
		return page{}, &httpkit.BodyError{Status: http.StatusBadRequest, Message: index + " must be an unempty string"}
	}
	res, err := r.Find(p.collection.Kind, p.api.Scope, index, value)
	if fault.Is(err, fault.NotFound) {
		return page{}, nil
	}
	if err != nil {
		return page{}, err
	}
	return page{resources: []*model.Resource{res}, total: 1}, nil
}

func pageSize(query url.Values) (int, error) {
	bad := func(text string) error {
		return &problem{http.StatusBadRequest, document{Code: 9, Name: "invalid size", Message: text}}
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

// writePage answers with a page; complete, if set, adds to its entities.
func (p place) writePage(w http.ResponseWriter, r *http.Request, got page, query url.Values, complete func(*model.Resource, map[string]any)) {
	data, err := p.api.entities(r.Context(), got.resources)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	for i := range data {
		if complete != nil {
			complete(got.resources[i], data[i])
		}
	}
	doc := map[string]any{"data": data, "next": nil}
	if p.collection.Total {
		doc["total"] = got.total
	}
	if got.more != "" {
		next := strings.TrimSuffix(r.URL.EscapedPath(), "/") + "?offset=" + url.QueryEscape(got.more)
		if size := query.Get("size"); !p.nested && size != "" {
			next += "&size=" + url.QueryEscape(size)
		}
		if tags := query.Get("tags"); tags != "" {
			next += "&tags=" + url.QueryEscape(tags)
		}
		doc["offset"], doc["next"] = got.more, next
	}
	reply(w, r, http.StatusOK, doc)
}
