package cloudapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Fleet knows the gateways of control planes.
type Fleet interface {
	// Gateways lists the gateways of some scopes, connected or away.
	Gateways(scopes ...string) []nodes.Node
	// LeftOut lists what clashes in a group, in the state of a revision. It is not known of a group that
	// nobody follows, or cannot follow at present.
	LeftOut(scope string) (list []scopes.Clash, revision uint64, known bool)
}

// PlaneOptions are what the endpoints of control planes need beside the rest.
type PlaneOptions struct {
	// Fleet is nil where no gateways can connect.
	Fleet Fleet
	// Recheck, if set, ends what gateways have open that may not be connected any more.
	Recheck func(ctx context.Context)
	// Endpoint and Telemetry are the addresses that gateways are told.
	Endpoint, Telemetry string
	// Entities are the endpoints of the entities of a control plane, at paths below it. They act in
	// the control plane that Enter says.
	Entities []httpkit.Endpoint
	Enter    func(r *http.Request, scope string) *http.Request
	// Unlisted marks a request of the declarative tool, which does not read all that it writes.
	Unlisted func(r *http.Request) *http.Request
	// Describe describes these endpoints for the OpenAPI document.
	Describe func([]httpkit.Endpoint) (map[string]*openapi.PathItem, openapi.Components)
	// Declared, if set, says why nobody writes the entities of the first control plane.
	Declared string
	// Organization is who runs this; tools show its name.
	Organization Organization
	// Region is the name of the region that these control planes are in.
	Region string
}

// Organization is who runs control planes.
type Organization struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// located is who runs control planes, and the region of those that this process has.
type located struct {
	Organization
	Region string `json:"region,omitempty"`
}

// pathPlanes is the path of all control planes.
const pathPlanes = base + "/control-planes"

// fieldClusterType is the member that says whether a control plane is a group.
const fieldClusterType = "cluster_type"

// pathEntities is the path of the entities of one.
const pathEntities = pathPlanes + "/{" + pathID + "}/core-entities"

// planes are the control planes in an API.
type planes struct{ served }

func (a *API) planes() planes {
	return planes{served{a, &Collection{
		Kind: cloud.ControlPlanes, Title: "Control plane", Missing: "The requested control plane was not found.", Created: http.StatusCreated, Paging: byNumber,
		Filters: []string{"id", "name", fieldClusterType, "cloud_gateway"}, Spellings: map[string]func(string) []string{fieldClusterType: cloud.SpellingsOfType}, Sorts: []string{"created_at", "name", "updated_at"}, Labelled: true,
		Sentences: map[mistaken]sentence{{"", ruleUnknown}: {title: titleInvalid, detail: "Request contains unknown property"}},
	}}}
}

// planeEndpoints lists the endpoints of control planes.
func (a *API) planeEndpoints() []httpkit.Endpoint {
	p := a.planes()
	const item = pathPlanes + "/{" + pathID + "}"
	at := func(e httpkit.Endpoint) httpkit.Endpoint {
		e.Where = inPlane
		return e.About(p.Kind.Name)
	}
	list := []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pathPlanes, Auth: access.Known, Summary: "List control planes that the caller may read", Handler: p.list}, "", http.StatusOK, p.Kind.Name+suffixPage, p.parameters()...).About(p.Kind.Name),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: pathPlanes, Auth: access.Own, Summary: "Create a control plane or a group", Handler: p.create}, p.Kind.Name+suffixRequest, http.StatusCreated, p.Kind.Name).About(p.Kind.Name),
		at(does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item, Auth: access.Read, Summary: "Read a control plane", Handler: p.get}, "", http.StatusOK, p.Kind.Name)),
		at(does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: item, Auth: access.Own, Summary: "Change a control plane", Handler: p.patch}, p.Kind.Name+suffixChange, http.StatusOK, p.Kind.Name)),
		at(does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: item, Auth: access.Own, Summary: "Delete a control plane and its entities", Handler: p.remove}, "", http.StatusNoContent, "")),
	}
	for _, e := range slices.Concat(p.groupEndpoints(item), p.stateEndpoints(item)) {
		list = append(list, at(e))
	}
	for _, e := range p.certificateEndpoints(item) {
		list = append(list, at(e.About(cloud.ClientCertificates.Name))) // the innermost counts
	}
	list = append(list, p.entities(pathEntities)...)
	return append(list, p.olderEndpoints()...)
}

// inPlane is where a request about a control plane acts.
func inPlane(r *http.Request) access.Scope {
	return access.Scope{ControlPlane: cloud.ScopeOf(strings.ToLower(r.PathValue(pathID)))}
}

// scope is the scope of the entities of the control plane that a path names.
func (p planes) scope(r *http.Request) string { return inPlane(r).ControlPlane }

// body reads a body as a write of a control plane.
func (p planes) body(w http.ResponseWriter, r *http.Request) (httpkit.Body, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	body, err := httpkit.ReadBody(r)
	if err == nil {
		err = fault.Violated(body.Repeated)
	}
	if err == nil {
		err = p.foreignMembers(body.Values)
	}
	return body, err
}

// create makes a control plane, and with a group its list of members.
func (p planes) create(w http.ResponseWriter, r *http.Request) {
	body, err := p.body(w, r)
	var out admit.Outcome
	if err == nil {
		out, err = p.api.Gate.CreateWith(r.Context(), admit.Address{Kind: p.Kind}, admit.Input{Values: body.Values, Text: body.Text}, grouped)
	}
	p.answer(w, r, http.StatusCreated, out, body.Values, err)
}

// grouped makes the list of members of a new group.
func grouped(tx store.Tx, created *model.Resource) error {
	if !created.Spec.(*cloud.ControlPlane).IsGroup() {
		return nil
	}
	_, err := tx.Create(&model.Resource{Kind: cloud.Groups, Name: created.Name, Spec: &cloud.Group{ControlPlane: created.Name}})
	return err
}

// patch changes a control plane. What it is stays, and so does the name of the one that tools look
// for when they are told no other.
func (p planes) patch(w http.ResponseWriter, r *http.Request) {
	res, err := p.read(r)
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	body, err := p.body(w, r)
	if err == nil {
		err = p.unchanging(res, body.Values)
	}
	var out admit.Outcome
	if err == nil {
		out, err = p.api.Gate.Patch(r.Context(), p.address(r), admit.Input{Values: body.Values, Text: body.Text})
	}
	p.answer(w, r, http.StatusOK, out, body.Values, err)
}

func (p planes) unchanging(res *model.Resource, given map[string]any) error {
	if _, names := given[fieldClusterType]; names {
		return p.refused(invalid{Field: fieldClusterType, Reason: "property " + fieldClusterType + " should not exist", Rule: ruleUnknown, Source: fromBody})
	}
	if name, names := given["name"]; names && res.Name == cloud.DefaultID && name != model.DefaultControlPlane {
		return refused(invalid{Field: "name", Reason: "the first control plane keeps its name", Rule: ruleInvalid, Source: fromBody})
	}
	return nil
}

// answer answers a write.
func (p planes) answer(w http.ResponseWriter, r *http.Request, status int, out admit.Outcome, given map[string]any, err error) {
	if out.Resource != nil {
		httpkit.EntryOf(r.Context()).Name = out.Resource.Name
	}
	if fault.Is(err, fault.Invalid) {
		err = p.refusal(err, given)
	}
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	p.reply(w, r, status, p.record(out.Resource))
}

func (p planes) get(w http.ResponseWriter, r *http.Request) {
	res, err := p.read(r)
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	p.reply(w, r, http.StatusOK, p.record(res))
}

func (p planes) reply(w http.ResponseWriter, r *http.Request, status int, doc any) {
	if err := httpkit.WriteJSON(w, status, doc); err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
}

// record shows a control plane. What it is made of is in a member of its own, and what was not given
// is there, too.
func (p planes) record(res *model.Resource) map[string]any {
	c := res.Spec.(*cloud.ControlPlane)
	labels, proxies := c.Labels, c.ProxyURLs
	if labels == nil {
		labels = map[string]string{}
	}
	if proxies == nil {
		proxies = []cloud.ProxyURL{}
	}
	return map[string]any{
		"id": res.Name, "name": c.Name, "description": c.Description, "labels": labels,
		"config": map[string]any{
			"control_plane_endpoint": p.api.Planes.Endpoint, "telemetry_endpoint": p.api.Planes.Telemetry,
			fieldClusterType: c.ClusterType, "auth_type": c.AuthType, "cloud_gateway": c.CloudGateway, "proxy_urls": proxies,
		},
		"created_at": stamp(res.Created), "updated_at": stamp(latest(res.Created, res.Modified)),
	}
}

// view runs fn with the control plane that a path names.
func (p planes) view(r *http.Request, fn func(reader store.Reader, plane *model.Resource) error) error {
	return p.api.Store.View(r.Context(), func(reader store.Reader) error {
		plane, err := admit.Lookup(reader, p.address(r))
		if err != nil {
			return err
		}
		httpkit.EntryOf(r.Context()).Name = plane.Name
		return fn(reader, plane)
	})
}

// lately is how long a gateway counts as connected after it was seen, and how long the gateways that
// are known at the start of this process have to come to it.
const lately = time.Minute

// connected counts the connected gateways of a scope.
func (p planes) connected(scope string) int { return p.present(scope)[scope] }

// present counts the connected gateways of some scopes in one pass over all, as the streams and links
// of this process know them. One that is away for a moment counts, too: it comes back.
func (p planes) present(scopes ...string) map[string]int {
	out := map[string]int{}
	if p.api.Planes.Fleet == nil || len(scopes) == 0 {
		return out
	}
	now := p.api.Now()
	// What is further ahead was noted before the clock was set back.
	near := func(at time.Time) bool { return now.Sub(at).Abs() < lately }
	for _, n := range p.api.Planes.Fleet.Gateways(scopes...) {
		if n.State == insight.Connected || n.Returning || near(p.api.started) || n.Since != nil && near(*n.Since) {
			_, scope := nodes.ScopeOf(n.Name)
			out[scope]++
		}
	}
	return out
}
