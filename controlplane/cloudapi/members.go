package cloudapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// fieldMembers is the member of a body that lists control planes.
const fieldMembers = "members"

// groupEndpoints lists the endpoints of the members of a group.
func (p planes) groupEndpoints(item string) []httpkit.Endpoint {
	list := item + "/group-memberships"
	add := func(m *cloud.Group, ids []string) { m.Members = union(m.Members, ids) }
	remove := func(m *cloud.Group, ids []string) {
		m.Members = slices.DeleteFunc(m.Members, func(id string) bool { return slices.Contains(ids, id) })
	}
	put := func(m *cloud.Group, ids []string) { m.Members = union(nil, ids) }
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: list, Auth: access.Read, Summary: "List the members of a group", Handler: p.members}, "", http.StatusOK, schemaMembersPage, paramSize, paramAfter),
		does(httpkit.Endpoint{Method: http.MethodPut, Pattern: list, Auth: access.Own, Summary: "Set the members of a group", Handler: p.changing(change{put, cloud.MaxMembers, false})}, schemaMembers, http.StatusNoContent, ""),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: list + "/add", Auth: access.Own, Summary: "Add members to a group", Handler: p.changing(change{add, cloud.MaxAtOnce, false})}, schemaSomeMembers, http.StatusNoContent, ""),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: list + "/remove", Auth: access.Own, Summary: "Remove members from a group", Handler: p.changing(change{remove, cloud.MaxAtOnce, true})}, schemaSomeMembers, http.StatusNoContent, ""),
	}
}

// union lists ids once, in order.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// change is a change of members.
type change struct {
	apply func(m *cloud.Group, ids []string)
	// most bounds the ids of one request.
	most int
	// leaves says that those that are named are members no more: it does not matter what they are.
	leaves bool
}

// changing answers a change of the members of a group. All of them change or none.
func (p planes) changing(c change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := p.view(r, isGroup)
		var ids []string
		if err == nil {
			ids, err = p.named(w, r, c.most)
		}
		var busy map[string]int
		if err == nil && !c.leaves {
			err = p.mayJoin(r, ids)
			busy = p.present(scopesOf(ids)...) // ahead of the transaction, which keeps others from writing
		}
		if err == nil {
			_, err = p.api.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error { return p.change(tx, p.address(r).Key, ids, c, busy) })
		}
		if err != nil {
			p.api.fail(w, r, err, p.Collection)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func scopesOf(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = cloud.ScopeOf(id)
	}
	return out
}

// change changes the members in a transaction. What is a member already is not judged again. busy
// counts connected gateways by scope.
func (p planes) change(tx store.Tx, group string, ids []string, c change, busy map[string]int) error {
	row, err := tx.Get(cloud.Groups, "", group)
	if err != nil {
		return err
	}
	was := row.Spec.(*cloud.Group)
	now := &cloud.Group{ControlPlane: group, Members: slices.Clone(was.Members)}
	c.apply(now, ids)
	if slices.Equal(was.Members, now.Members) {
		return nil
	}
	if len(now.Members) > cloud.MaxMembers {
		return refused(tooManyMembers(cloud.MaxMembers, fmt.Sprintf("a group has at most %d members", cloud.MaxMembers)))
	}
	var bad []invalid
	for i, id := range ids {
		if c.leaves || slices.Contains(was.Members, id) {
			continue
		}
		why, err := hindrance(tx, id, busy[cloud.ScopeOf(id)])
		if err != nil {
			return err
		}
		if why != nil {
			if why.Field == "" {
				why.Field = fieldMembers + entry(i) + ".id"
			}
			bad = append(bad, *why)
		}
	}
	if len(bad) > 0 {
		return &problem{Status: http.StatusBadRequest, Title: titleInvalid, Detail: "Some control planes cannot join the group: " + bad[0].Reason, Invalid: bad}
	}
	_, err = tx.Update(&model.Resource{Kind: cloud.Groups, Name: group, Spec: now}, row.Version)
	return err
}

// hindrance says why a control plane with so many connected gateways cannot join a group; nil if it can.
// Without a field it is about the id.
func hindrance(tx store.Tx, id string, connected int) (*invalid, error) {
	because := func(format string, args ...any) *invalid {
		return &invalid{Reason: fmt.Sprintf(format, args...), Rule: ruleInvalid, Source: fromBody}
	}
	res, err := tx.Get(cloud.ControlPlanes, "", id)
	if err != nil {
		return nil, err // NotFound is for the whole request
	}
	plane := res.Spec.(*cloud.ControlPlane)
	if plane.Ending {
		return because("%q is being deleted", plane.Name), nil
	}
	if plane.IsGroup() {
		return because("%q is a group, and a group cannot be in a group", plane.Name), nil
	}
	of, err := tx.List(cloud.Groups, store.Query{Index: cloud.IndexMembers, Value: id})
	if err != nil {
		return nil, err
	}
	if most := cloud.MaxGroups; len(of) >= most {
		why := because("%q is in %d groups already", plane.Name, most)
		why.Rule, why.Maximum = ruleMaxItems, &most
		return why, nil
	}
	if connected > 0 {
		why := because("%q has %d connected data plane nodes; one counts until it is away for %d seconds, and so long after a start of the control plane", plane.Name, connected, int(lately.Seconds()))
		why.Field = fieldMembers
		return why, nil
	}
	return nil, nil //nolint:nilnil // nil is no hindrance
}

// isGroup refuses what has no members.
func isGroup(_ store.Reader, plane *model.Resource) error {
	if plane.Spec.(*cloud.ControlPlane).IsGroup() {
		return nil
	}
	return refused(invalid{Field: pathID, Reason: "the control plane is not a group", Rule: ruleInvalid})
}

// mayJoin demands that the caller may change what is to be published by the gateways of a group. Of
// what he may not see he is told that it does not exist.
func (p planes) mayJoin(r *http.Request, ids []string) error {
	for _, id := range ids {
		in := access.Scope{ControlPlane: cloud.ScopeOf(id)}
		if p.api.Rules.Decide(httpkit.CallerOf(r), access.Own, in).Allowed {
			continue
		}
		if !p.api.Rules.Decide(httpkit.CallerOf(r), access.Read, in).Allowed {
			return fault.New(fault.NotFound, "no such control plane")
		}
		return fault.New(fault.Forbidden, "the caller may not put %s into a group", id)
	}
	return nil
}

func tooManyMembers(most int, reason string) invalid {
	return invalid{Field: fieldMembers, Reason: reason, Rule: ruleMaxItems, Maximum: &most, Source: fromBody}
}

// named reads the ids of a body.
func (p planes) named(w http.ResponseWriter, r *http.Request, most int) ([]string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	body, err := httpkit.ReadBody(r)
	if err != nil {
		return nil, err
	}
	if err := fault.Violated(body.Repeated); err != nil {
		return nil, p.refusal(err, body.Values)
	}
	for name := range body.Values {
		if name != fieldMembers {
			return nil, p.refused(invalid{Field: name, Reason: "property " + name + " should not exist", Rule: ruleUnknown, Source: fromBody})
		}
	}
	given, is := body.Values[fieldMembers].([]any)
	least := 1
	switch {
	case body.Values[fieldMembers] == nil:
		return nil, refused(invalid{Field: fieldMembers, Reason: `"members" is required`, Rule: ruleRequired, Source: fromBody})
	case !is:
		return nil, refused(invalid{Field: fieldMembers, Reason: "must be an array", Rule: "is_array", Source: fromBody})
	case len(given) == 0 && r.Method != http.MethodPut:
		return nil, refused(invalid{Field: fieldMembers, Reason: "must not be empty", Rule: ruleMinItems, Minimum: &least, Source: fromBody})
	case len(given) > most:
		return nil, refused(tooManyMembers(most, fmt.Sprintf("must be at most %d members", most)))
	}
	ids := make([]string, len(given))
	for i, v := range given {
		member, _ := v.(map[string]any)
		id, _ := member[pathID].(string)
		if !model.IsUUID(id) || len(member) != 1 {
			return nil, refused(invalid{Field: fieldMembers + entry(i) + ".id", Reason: "must be the id of a control plane, and nothing beside it", Rule: "is_uuid", Source: fromBody})
		}
		ids[i] = strings.ToLower(id)
	}
	return ids, nil
}

// members answers with a page of the members of a group, those that the caller may read.
func (p planes) members(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	size, after := defaultSize, ""
	if err == nil {
		err = readQuery(query, among(map[string]parameter{argSize: numeric(maxSize, &size), argAfter: cursor(&after)}))
	}
	var rows []*model.Resource
	if err == nil {
		err = p.view(r, func(reader store.Reader, plane *model.Resource) error {
			rows, err = p.membersOf(r, reader, plane)
			return err
		})
	}
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	from, _ := slices.BinarySearchFunc(rows, after+"\x00", byName)
	if after == "" {
		from = 0
	}
	page := rows[from:min(from+size, len(rows))]
	meta := map[string]any{"size": size, "next": nil}
	if from+size < len(rows) {
		meta["next"] = r.URL.Path + "?" + url.Values{
			argSize: {fmt.Sprint(size)}, argAfter: {base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].Name))},
		}.Encode()
	}
	if after == "" {
		meta["total"] = len(rows)
	}
	p.reply(w, r, http.StatusOK, map[string]any{"data": p.records(page), "meta": map[string]any{"page": meta}})
}

func (p planes) membersOf(r *http.Request, reader store.Reader, plane *model.Resource) (rows []*model.Resource, err error) {
	if err := isGroup(reader, plane); err != nil {
		return nil, err
	}
	group, err := cloud.GroupOf(reader, plane.Name)
	if err != nil || group == nil {
		return nil, err
	}
	for _, id := range group.Members {
		res, err := reader.Get(cloud.ControlPlanes, "", id)
		if err != nil {
			return nil, err
		}
		if p.readable(r, res) {
			rows = append(rows, res)
		}
	}
	return rows, nil
}
