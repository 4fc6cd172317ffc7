package gatewayapi

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The filters by name that lists of other control planes have; see [In].
const (
	filterName     = "filter[name]"
	filterEqual    = "filter[name][eq]"
	filterContains = "filter[name][contains]"
)

// nameFilters describes the filters by name.
var nameFilters = []httpkit.Parameter{
	{Name: filterName, Type: "string", Summary: "Only those with this name"},
	{Name: filterEqual, Type: "string", Summary: "Only those with this name"},
	{Name: filterContains, Type: "string", Summary: "Only those whose names contain this text"},
}

// named leaves what the filters by name of a request select. The API of a single control plane has
// never had any, and ignores them as all that it does not know.
func (s source) named(request *http.Request, query url.Values) source {
	if _, ok := placed(request); !ok {
		return s
	}
	equal := slices.Concat(query[filterName], query[filterEqual])
	if parts := query[filterContains]; len(equal)+len(parts) > 0 {
		s.keep = selecting(s.keep, equal, parts)
	}
	return s
}

// knownFilters refuses filters that a list does not have, where there are filters: it would show everything, and
// a client may delete what it takes for the selected ones.
func knownFilters(request *http.Request, query url.Values, known []httpkit.Parameter) error {
	if _, ok := placed(request); !ok {
		return nil
	}
	unknown := map[string]any{}
	for name := range query {
		is := func(p httpkit.Parameter) bool { return p.Name == name }
		if (name == "filter" || strings.HasPrefix(name, "filter[")) && !slices.ContainsFunc(known, is) {
			unknown[name] = "unknown filter"
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	text := "invalid option (" + strings.Join(slices.Sorted(maps.Keys(unknown)), ", ") + ": unknown filter)"
	return &problem{http.StatusBadRequest, errorBody{Code: 11, Name: "invalid options", Message: text, Options: unknown}}
}

// selecting narrows what is kept to names that are each of some texts, and contain each of others. A row is
// converted once, however many there are: each reader of a control plane could keep a processor busy otherwise.
func selecting(keep func(*model.Resource) bool, equal, parts []string) func(*model.Resource) bool {
	return func(r *model.Resource) bool {
		if keep != nil && !store.IsUnread(r) && !keep(r) {
			return false
		}
		entity, err := r.Entity()
		if err != nil {
			return true // whoever shows it says what is wrong
		}
		name, _ := entity["name"].(string)
		other := func(text string) bool { return name != text }
		lacks := func(part string) bool { return !strings.Contains(name, part) }
		return !slices.ContainsFunc(equal, other) && !slices.ContainsFunc(parts, lacks)
	}
}

// nameQuery are the filters by name of a request, for the path of the next page.
func nameQuery(request *http.Request, query url.Values) (text string) {
	if _, ok := placed(request); !ok {
		return ""
	}
	for _, p := range nameFilters {
		for _, value := range query[p.Name] {
			text += "&" + url.QueryEscape(p.Name) + "=" + url.QueryEscape(value)
		}
	}
	return text
}
