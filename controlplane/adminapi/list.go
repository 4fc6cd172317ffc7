package adminapi

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
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

// list answers with a page, ordered by id.
func (p place) list(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	var got page
	err = p.api.Store.View(r.Context(), func(reader store.Reader) error {
		got, err = p.page(reader, p.address(r), query)
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	p.writePage(w, r, got, query)
}

func (p place) page(r store.Reader, a admit.Address, query url.Values) (page, error) {
	q := store.Query{Scope: a.Scope}
	if a.Under != nil {
		owner, err := admit.Lookup(r, a.Under.Address)
		if err != nil {
			return page{}, err
		}
		q.Index, q.Value = a.Under.Ref, owner.Name
	}
	for _, name := range p.collection.Filters {
		if query.Has(name) && a.Under == nil {
			return p.filtered(r, name, query.Get(name))
		}
	}
	var got page
	size, err := pageSize(query)
	if err != nil {
		return got, err
	}
	if q.After, err = p.offset(q, query.Get("offset")); err != nil {
		return got, err
	}
	q.Limit = size + 1
	if got.resources, err = r.List(a.Kind, q); err != nil {
		return got, err
	}
	if len(got.resources) > size {
		got.resources = got.resources[:size]
		got.more = base64.RawURLEncoding.EncodeToString(append(p.offsetContext(q), got.resources[size-1].Name...))
	}
	if p.collection.Total {
		q.After, q.Limit = "", 0
		got.total, err = r.Count(a.Kind, q)
	}
	return got, err
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

// offsetContext binds an offset to the list that it continues.
func (p place) offsetContext(q store.Query) []byte {
	return []byte(p.collection.Kind.Name + "\n" + q.Index + "\n" + q.Value + "\n")
}

// offset returns the id after which the page starts.
func (p place) offset(q store.Query, offset string) (string, error) {
	if offset == "" {
		return "", nil
	}
	bad := func(why string) error {
		text := "'" + offset + "' is not a valid offset: " + why
		return &problem{http.StatusBadRequest, document{Code: 7, Name: "invalid offset", Message: text}}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(offset, "="))
	if err != nil {
		return "", bad("bad base64 encoding")
	}
	after, ok := bytes.CutPrefix(raw, p.offsetContext(q))
	if !ok || !model.IsUUID(string(after)) {
		return "", bad("it belongs to no page of this list")
	}
	return strings.ToLower(string(after)), nil
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

func (p place) writePage(w http.ResponseWriter, r *http.Request, got page, query url.Values) {
	data := make([]map[string]any, 0, len(got.resources))
	for _, res := range got.resources {
		entity, err := res.Show(p.api.Now())
		if err != nil {
			p.api.fail(w, r, err, call{})
			return
		}
		data = append(data, entity)
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
		doc["offset"], doc["next"] = got.more, next
	}
	reply(w, r, http.StatusOK, doc)
}
