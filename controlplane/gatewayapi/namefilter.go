package gatewayapi

import (
	"net/http"
	"net/url"
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
	for _, p := range nameFilters {
		if query.Has(p.Name) {
			s.keep = selecting(s.keep, query.Get(p.Name), p.Name == filterContains)
		}
	}
	return s
}

// selecting narrows what is kept to names that are a text, or contain it.
func selecting(keep func(*model.Resource) bool, text string, part bool) func(*model.Resource) bool {
	return func(r *model.Resource) bool {
		if keep != nil && !store.IsUnread(r) && !keep(r) {
			return false
		}
		entity, err := r.Entity()
		if err != nil {
			return true // whoever shows it says what is wrong
		}
		name, _ := entity["name"].(string)
		return name == text || part && strings.Contains(name, text)
	}
}

// nameQuery are the filters by name of a request, for the path of the next page.
func nameQuery(request *http.Request, query url.Values) (text string) {
	if _, ok := placed(request); !ok {
		return ""
	}
	for _, p := range nameFilters {
		if query.Has(p.Name) {
			text += "&" + url.QueryEscape(p.Name) + "=" + url.QueryEscape(query.Get(p.Name))
		}
	}
	return text
}
