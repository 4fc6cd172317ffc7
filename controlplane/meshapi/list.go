package meshapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	defaultSize = 100
	maxSize     = 1000
	// maxListBytes ends a page early; the next page goes on from there.
	maxListBytes = 8 << 20
	// batch is the number of resources that are read at once.
	batch = 500
)

// listing is the body of a list.
type listing struct {
	Total int   `json:"total"`
	Items []any `json:"items"`
	// Next is the URL of the next page.
	Next *string `json:"next"`
	// Unreadable counts the resources that are left out because they cannot be read, as after
	// a downgrade; the log names them. It is absent if everything can be read.
	Unreadable int `json:"unreadable,omitempty"`
}

// list answers with a page of one mesh, or of all meshes. pattern is the pattern of the
// endpoint.
func (c collection) list(pattern string) http.HandlerFunc {
	return c.listOf(pattern, demand{}, func(r *http.Request, res *model.Resource) (any, error) {
		return show(c.api.encodingsFor(r, res), res)
	})
}

// demand is what a list asks of its resources, beside what its query asks. The zero value asks nothing.
type demand struct {
	// facts chooses by what directories know of all dataplanes.
	facts func(facts) bool
	// known demands that something is known about the proxy; a directory knows whether there is. It
	// is asked where no directory is.
	known func(*http.Request, *model.Resource) (bool, error)
}

// listOf answers with a page of those resources that meet a demand. show converts each resource.
func (c collection) listOf(pattern string, only demand, show func(*http.Request, *model.Resource) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query, err := httpkit.Query(r)
		if err != nil {
			fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
			return
		}
		found, window, err := c.find(r, query, pattern, only)
		if err != nil {
			answer(w, r, opList, err)
			return
		}
		if found.unreadable != nil {
			httpkit.EntryOf(r.Context()).Cause = errors.Join(found.unreadable...)
		}
		doc := listing{Total: found.total, Items: make([]any, 0, len(found.page)), Unreadable: len(found.unreadable)}
		written, shown := 0, 0
		for _, res := range found.page {
			if written > maxListBytes {
				break
			}
			if shown++; res == nil {
				continue
			}
			item, err := show(r, res)
			if fault.Is(err, fault.NotFound) {
				continue // what there was to show went a moment ago
			}
			if err != nil {
				fail(w, r, opList, err)
				return
			}
			if raw, ok := item.(json.RawMessage); ok {
				written += len(raw)
			}
			doc.Items = append(doc.Items, item)
		}
		if end := window.offset + shown; shown > 0 && end < doc.Total {
			next := nextPage(r, query, strconv.Itoa(end))
			doc.Next = &next
		}
		reply(w, r, http.StatusOK, doc)
	}
}

// window is the requested part of a list: size items from offset on, among those whose names
// contain part.
type window struct {
	size, offset int
	part         string
}

// result is the part of a list that is returned, and the size of the whole list. The page
// holds nil for each resource that cannot be read, or is gone or not wanted any more. unreadable holds the errors of these, and
// of other unreadable resources that were met.
type result struct {
	page       []*model.Resource
	total      int
	unreadable []error
}

// find checks size, filters, mesh and offset, in this order, and reads the page.
func (c collection) find(r *http.Request, query url.Values, pattern string, only demand) (found result, win window, err error) {
	if win.size, err = pageSize(query.Get("size")); err != nil {
		return found, win, failed(opSize, err)
	}
	win.part = query.Get("name")
	wanted, err := c.filter(query, pattern)
	if err != nil {
		return found, win, err
	}
	wanted = both(wanted, only.facts)
	visible := c.api.seen(r)
	if c.api.Directory != nil && census.Lists(c.kind) {
		found, listed, err := c.findListed(r, query, visible, wanted, only.known != nil, win)
		if !fault.Is(err, fault.Unavailable) || r.Context().Err() != nil {
			return found, listed, err
		}
	}
	var match func(*model.Resource) bool
	if wanted != nil {
		match = func(res *model.Resource) bool { return wanted(factsOf(res)) }
	}
	if accepts := match; c.kind == mesh.Meshes && visible != nil {
		match = func(res *model.Resource) bool { return visible(res.Name) && (accepts == nil || accepts(res)) }
	}
	var broken error // the first failure to learn what is known
	if accepts := match; only.known != nil {
		match = func(res *model.Resource) bool {
			if broken != nil || accepts != nil && !accepts(res) {
				return false
			}
			var kept bool
			kept, broken = only.known(r, res)
			return kept
		}
	}
	err = c.api.Store.View(r.Context(), func(reader store.Reader) error {
		scopes, unreadable, err := c.scopes(reader, r.PathValue(pathMesh), visible)
		if err != nil {
			return err
		}
		if win.offset, err = pageOffset(query.Get("offset")); err != nil {
			return failed(opOffset, err)
		}
		found, err = c.search(reader, scopes, match, win)
		found.unreadable = append(found.unreadable, unreadable...)
		return cmp.Or(err, broken)
	})
	return found, win, err
}

// scopes returns the scopes that a list covers, in the order of the list, and errors for
// scopes that cannot be read. visible says which meshes the caller may see; nil means all.
func (c collection) scopes(reader store.Reader, name string, visible func(mesh string) bool) (scopes []string, unreadable []error, err error) {
	if c.kind.Scoping != model.Mesh {
		return []string{""}, nil, nil
	}
	if name != "" {
		return []string{name}, nil, meshExists(reader, name)
	}
	meshes, unreadable, err := store.ListReadable(reader, mesh.Meshes, "")
	for _, m := range meshes {
		if visible == nil || visible(m.Name) {
			scopes = append(scopes, m.Name)
		}
	}
	return scopes, unreadable, err
}

// search reads a page of the matching resources. If match is nil, all resources match, and
// those outside of the page are only counted.
func (c collection) search(reader store.Reader, scopes []string, match func(*model.Resource) bool, win window) (found result, err error) {
	for _, scope := range scopes {
		if match == nil {
			err = c.slice(reader, scope, win, &found)
		} else {
			err = c.collect(reader, scope, match, win, &found)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// slice adds the part of the page that lies in one scope, by its position alone.
func (c collection) slice(reader store.Reader, scope string, win window, found *result) error {
	q := store.Query{Scope: scope, Part: win.part}
	n, err := reader.Count(c.kind, q)
	if err != nil {
		return err
	}
	before := found.total
	found.total += n
	if found.total <= win.offset || len(found.page) == win.size {
		return nil
	}
	q.Skip, q.Limit = max(0, win.offset-before), win.size-len(found.page)
	part, unreadable, err := store.PageReadable(reader, c.kind, q)
	found.page, found.unreadable = append(found.page, part...), append(found.unreadable, unreadable...)
	return err
}

// collect adds the matches in one scope. A match depends on the content, so everything must
// be read for the total. Resources that cannot be read do not match.
func (c collection) collect(reader store.Reader, scope string, match func(*model.Resource) bool, win window, found *result) error {
	for q := (store.Query{Scope: scope, Limit: batch, Part: win.part}); ; {
		part, unreadable, err := store.PageReadable(reader, c.kind, q)
		if err != nil {
			return err
		}
		found.unreadable = append(found.unreadable, unreadable...)
		for _, res := range part {
			if res == nil {
				q.Skip++ // its name is unknown
				continue
			}
			q.After, q.Skip = res.Name, 0
			if !match(res) {
				continue
			}
			if found.total++; found.total > win.offset && len(found.page) < win.size {
				found.page = append(found.page, res)
			}
		}
		if len(part) < batch {
			return nil
		}
	}
}

// pageSize parses size; empty and 0 mean the default.
func pageSize(text string) (int, error) {
	if text == "" {
		return defaultSize, nil
	}
	bad := func(format string, args ...any) (int, error) {
		return 0, fault.Violated([]fault.Violation{{Path: "size", Message: fmt.Sprintf(format, args...)}})
	}
	size, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return bad("invalid format")
	case size > maxSize:
		return bad("invalid page size of %d. Maximum page size is %d", size, maxSize)
	case size < 0:
		return bad("invalid page size of %d. It must not be negative", size)
	}
	return cmp.Or(size, defaultSize), nil
}

// pageOffset parses offset, the index of the first item.
func pageOffset(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	offset, err := strconv.Atoi(text)
	if err != nil || offset < 0 {
		return 0, fault.Violated([]fault.Violation{{Path: "offset", Message: "Invalid format"}})
	}
	return offset, nil
}

// nextPage returns the URL of the request with another offset. Host comes from the client;
// the guard has checked it.
func nextPage(r *http.Request, query url.Values, offset string) string {
	query.Set("offset", offset)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + r.URL.EscapedPath() + "?" + query.Encode()
}
