package cloudapi

import (
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// list answers with a page of those control planes that the caller may read.
func (p planes) list(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	var want wanted
	if err == nil {
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
		return !p.readable(r, res) || !want.selects(res)
	})
	want.sort(rows)
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
