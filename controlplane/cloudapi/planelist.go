package cloudapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The parameters of the list of control planes beside pages and filters.
const (
	argLabels = "labels"
	argSort   = "sort"
)

// sorts are the members to sort by.
var sorts = map[string]func(a, b *model.Resource) int{
	"name": func(a, b *model.Resource) int {
		return strings.Compare(a.Spec.(*cloud.ControlPlane).Name, b.Spec.(*cloud.ControlPlane).Name)
	},
	"created_at": func(a, b *model.Resource) int { return a.Created.Compare(b.Created) },
	"updated_at": func(a, b *model.Resource) int { return a.Modified.Compare(b.Modified) },
}

// list answers with a page of those control planes that the caller may read.
func (p planes) list(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	var want wanted
	var more selection
	if err == nil {
		more, err = readSelection(query)
	}
	if err == nil {
		query.Del(argLabels)
		query.Del(argSort)
		want, err = p.wanted(query)
	}
	var rows []*model.Resource
	if err == nil {
		err = p.api.Store.View(r.Context(), func(reader store.Reader) error {
			rows, err = reader.List(p.Kind, store.Query{})
			return err
		})
	}
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(res *model.Resource) bool {
		return !p.readable(r, res) || !p.selects(&want, res) || !more.selects(res)
	})
	more.sort(rows)
	page, meta := p.cut(rows, want, r.URL)
	p.reply(w, r, http.StatusOK, map[string]any{"data": p.records(page), "meta": meta})
}

// readable reports whether the caller of a request may read a control plane.
func (p planes) readable(r *http.Request, res *model.Resource) bool {
	return p.api.Rules.Decide(httpkit.CallerOf(r), access.Read, access.Scope{ControlPlane: cloud.ScopeOf(res.Name)}).Allowed
}

func (p planes) records(rows []*model.Resource) []map[string]any {
	data := make([]map[string]any, len(rows))
	for i, res := range rows {
		data[i] = p.record(res)
	}
	return data
}

// selects is [wanted.selects] for the members of a control plane, of which not all are texts.
func (p planes) selects(want *wanted, res *model.Resource) bool {
	c := res.Spec.(*cloud.ControlPlane)
	texts := map[string]string{"id": res.Name, "name": c.Name, "cluster_type": c.ClusterType, "cloud_gateway": strconv.FormatBool(c.CloudGateway)}
	for _, f := range want.filters {
		if !f.holds(texts[f.member]) {
			return false
		}
	}
	return true
}

// selection is what else a list of control planes is asked for.
type selection struct {
	// labels are keys and the values that they must have; an empty one is any.
	labels map[string]string
	by     func(a, b *model.Resource) int
	down   bool
}

func readSelection(query url.Values) (s selection, err error) {
	if query.Has(argSort) {
		member, order, _ := strings.Cut(query.Get(argSort), " ")
		s.by, s.down = sorts[member], order == "desc"
		if s.by == nil || order != "" && order != "asc" && order != "desc" {
			return s, refused(invalid{
				Field: argSort, Reason: "must be one of the choices, with asc or desc behind it", Rule: ruleEnum, Source: fromQuery,
				Choices: []string{"created_at", "name", "updated_at"},
			})
		}
	}
	s.labels = map[string]string{}
	for part := range strings.SplitSeq(query.Get(argLabels), ",") {
		if key, value, _ := strings.Cut(strings.TrimSpace(part), ":"); key != "" {
			s.labels[key] = value
		}
	}
	return s, nil
}

func (s selection) selects(res *model.Resource) bool {
	has := res.Spec.(*cloud.ControlPlane).Labels
	for key, want := range s.labels {
		if value, ok := has[key]; !ok || want != "" && value != want {
			return false
		}
	}
	return true
}

// sort orders control planes; rows are in the order of their ids.
func (s selection) sort(rows []*model.Resource) {
	if s.by == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b *model.Resource) int {
		if s.down {
			a, b = b, a
		}
		return s.by(a, b)
	})
}
