package gatewayapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxTags bounds the tags of one filter.
const maxTags = 5

// tagFilter is the filter ?tags=; the zero value selects everything.
type tagFilter struct {
	names []string
	// any is set if one of the tags is enough.
	any bool
}

// tagsOf returns the index of a kind's tags.
func tagsOf(k *model.Kind) *model.ListIndex {
	for i := range k.Lists {
		if k.Lists[i].Name == gateway.IndexTags {
			return &k.Lists[i]
		}
	}
	return nil
}

func tagged(k *model.Kind) bool { return tagsOf(k) != nil }

// readTags parses the filter: a,b for all tags, a/b for any. A filter that cannot be applied
// is refused and not ignored: a tool may delete all entities that it takes for its own.
func readTags(k *model.Kind, query url.Values) (f tagFilter, err error) {
	if !query.Has("tags") {
		return f, nil
	}
	bad := func(text string) (tagFilter, error) {
		return tagFilter{}, &problem{http.StatusBadRequest, errorBody{
			Code: 11, Name: "invalid options", Message: "invalid option (tags: " + text + ")", Options: map[string]any{"tags": text},
		}}
	}
	text := query.Get("tags")
	f.any = strings.Contains(text, "/")
	f.names = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '/' })
	switch {
	case !tagged(k):
		return bad("this collection has no tags")
	case text == "" || len(query["tags"]) > 1:
		return bad("cannot be null or repeated")
	case f.any && strings.Contains(text, ","), len(f.names) != strings.Count(text, ",")+strings.Count(text, "/")+1:
		return bad("invalid filter syntax")
	case len(f.names) > maxTags:
		return bad("at most 5 tags")
	}
	slices.Sort(f.names)
	f.names = slices.Compact(f.names)
	return f, nil
}

// narrow applies the filter to the source of a list. A query for everything becomes queries
// by tag. If all tags are required, it uses the rarest tag. Queries of an owner are filtered.
func (f tagFilter) narrow(r store.Reader, k *model.Kind, s source) (source, error) {
	if len(f.names) == 0 {
		return s, nil
	}
	s.keep = func(r *model.Resource) bool { return f.admits(k, r) }
	if len(s.queries) != 1 || s.queries[0].Index != "" {
		return s, nil
	}
	scope := s.queries[0].Scope
	s.queries = nil
	fewest := 0
	for _, name := range f.names {
		q := store.Query{Scope: scope, Index: gateway.IndexTags, Value: name}
		if f.any || len(f.names) == 1 {
			s.queries = append(s.queries, q)
			continue
		}
		n, err := r.Count(k, q)
		if err != nil {
			return s, err
		}
		if s.queries == nil || n < fewest {
			s.queries, fewest = []store.Query{q}, n
		}
	}
	if f.any || len(f.names) == 1 {
		s.keep = nil // the queries return nothing else
	}
	return s, nil
}

// admits reports whether a resource has the tags.
func (f tagFilter) admits(k *model.Kind, r *model.Resource) bool {
	return len(f.names) == 0 || f.matches(tagsOf(k).Values(r.Spec))
}

func (f tagFilter) matches(tags []string) bool {
	for _, name := range f.names {
		if slices.Contains(tags, name) == f.any {
			return f.any
		}
	}
	return !f.any
}
