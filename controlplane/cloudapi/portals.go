package cloudapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// portals is the collection of portals.
var portals = &Collection{
	Kind: cloud.Portals, Title: "Portal", Created: http.StatusCreated, Paging: byNumber, Labelled: true,
	Filters:  []string{model.FieldID, "name", "display_name", "description", "custom_domain", "is_public"},
	Sorts:    []string{"name", "display_name", "description", "is_public", model.FieldCreated, model.FieldUpdated},
	Complete: completePortal,
	At:       func(r *http.Request) admit.Address { return portalAt(portalID(r)) },
}

func portalAt(id string) admit.Address { return admit.Address{Kind: cloud.Portals, Key: id} }

const (
	// pathPortal is the name of a portal's id in a path.
	pathPortal = "portalId"
	pathOf     = base + "/portals/{" + pathPortal + "}"
	// maxPortals bounds the portals.
	maxPortals = 1000
	argForce   = "force"
)

// portalEndpoints lists the endpoints of portals and of what they have.
func (a *API) portalEndpoints() []httpkit.Endpoint {
	s := served{a, portals}
	list := []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: base + "/portals", Auth: access.Read, Summary: "List portals", Handler: s.list}, "", http.StatusOK, "portal_page", portals.parameters()...),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: base + "/portals", Auth: access.Write, Summary: "Create a portal", Handler: a.createPortal}, "portal_request", http.StatusCreated, "portal"),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pathOf, Auth: access.Read, Summary: "Read a portal", Handler: s.get}, "", http.StatusOK, "portal"),
		does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: pathOf, Auth: access.Write, Summary: "Change a portal", Handler: a.patchPortal}, "portal_change", http.StatusOK, "portal"),
		does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: pathOf, Auth: access.Write, Summary: "Delete a portal with all that it has", Handler: a.removePortal}, "", http.StatusNoContent, "",
			httpkit.Parameter{Name: argForce, Type: "boolean", Summary: "Also if it has developers"}),
	}
	list = append(list, a.settingsEndpoints()...)
	list = append(list, a.developerEndpoints()...)
	list = append(list, a.portalHooks().endpoints()...)
	for i := range list {
		if strings.HasPrefix(list[i].Pattern, base+"/portals") {
			list[i] = list[i].About(cloud.Portals.Name)
		}
	}
	return list
}

// completePortal adds to a portal where it is reached, and what it has.
func completePortal(a *API, res *model.Resource, doc map[string]any) error {
	doc["default_domain"] = a.defaultDomain(res.Spec.(*cloud.Portal))
	if doc["labels"] == nil {
		doc["labels"] = map[string]any{}
	}
	// There are neither applications nor products of portals.
	doc["application_count"], doc["published_product_count"] = 0, 0
	return a.Store.View(context.Background(), func(r store.Reader) error {
		n, err := r.Count(cloud.Developers, ofPortal(res.Name))
		doc["developer_count"] = n
		return err
	})
}

// defaultDomain is the host of a portal that it has from the start; empty if there is no domain for it.
func (a *API) defaultDomain(p *cloud.Portal) string {
	if a.PortalDomain == "" {
		return ""
	}
	return p.Slug + "." + a.PortalDomain
}

// ofPortal selects the developers of a portal.
func ofPortal(id string) store.Query { return store.Query{Index: cloud.IndexPortal, Value: id} }

func (a *API) createPortal(w http.ResponseWriter, r *http.Request) {
	served{a, portals}.write(w, r, portals.Created, nil, func(ctx context.Context, at admit.Address, in admit.Input) (admit.Outcome, error) {
		if err := a.ownDomain(r, in); err != nil {
			return admit.Outcome{}, err
		}
		err := a.Store.View(ctx, func(reader store.Reader) error {
			n, err := reader.Count(cloud.Portals, store.Query{})
			if err == nil && n >= maxPortals {
				err = conflict(fmt.Sprintf("There are %d portals, which is the most", n))
			}
			return err
		})
		if err != nil {
			return admit.Outcome{}, err
		}
		return a.Gate.Create(ctx, at, in)
	})
}

func (a *API) patchPortal(w http.ResponseWriter, r *http.Request) {
	served{a, portals}.write(w, r, http.StatusOK, nil, func(ctx context.Context, at admit.Address, in admit.Input) (admit.Outcome, error) {
		if err := a.ownDomain(r, in); err != nil {
			return admit.Outcome{}, err
		}
		if in.Text {
			in.Values, in.Text = cloud.Portals.Schema.TypeText(in.Values, nil), false
		}
		return a.Gate.PatchIf(ctx, at, in, func(reader store.Reader, res *model.Resource) error {
			if in.Values["is_public"] != true {
				return nil
			}
			n, err := reader.Count(cloud.Developers, ofPortal(res.Name)) // in the transaction, where nobody adds one meanwhile
			if err == nil && n > 0 {
				err = conflict("The portal has developers, and a public one cannot have any")
			}
			return err
		})
	})
}

// ownDomain refuses a custom domain among those that portals have from the start: it could be that of
// another portal. It also refuses the hosts of this API, and that at which the caller reaches it: there
// would be nothing but the portal from then on.
func (a *API) ownDomain(r *http.Request, in admit.Input) error {
	text, _ := in.Values["custom_domain"].(string)
	if text = strings.ToLower(text); text != "" && (text == hostOf(r) || a.named(text)) {
		return refused(invalid{Field: "custom_domain", Reason: "must not be the host of this API", Rule: ruleInvalid, Source: fromBody})
	}
	if text != "" && (text == a.PortalDomain || a.below(text)) {
		return refused(invalid{Field: "custom_domain", Reason: "must not be in " + a.PortalDomain, Rule: ruleInvalid, Source: fromBody})
	}
	return nil
}

// below reports whether a host is one of those that portals have from the start.
func (a *API) below(host string) bool {
	return a.PortalDomain != "" && strings.HasSuffix(host, "."+a.PortalDomain) && !a.named(host)
}

// conflict is the document for what cannot be done as things are.
func conflict(text string) *problem {
	return &problem{Status: http.StatusConflict, Title: titleConflict, Detail: text}
}

// portalID is the id of the portal in a path.
func portalID(r *http.Request) string { return strings.ToLower(r.PathValue(pathPortal)) }

// portalIn returns the portal that a path names.
func portalIn(reader store.Reader, id string) (*model.Resource, error) {
	return admit.Lookup(reader, portalAt(id))
}

// purged is how many events one transaction removes.
const purged = 1000

// removePortal deletes a portal with its developers, their sessions, its webhook and its events. What
// does not fit into one transaction of the events follows in others; nobody can ask for it any more,
// and what should be left over expires.
func (a *API) removePortal(w http.ResponseWriter, r *http.Request) {
	force, err := forced(r)
	more := false
	id := portalID(r)
	if err == nil {
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			more, err = dropPortal(tx, id, force)
			return err
		})
	}
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	httpkit.EntryOf(r.Context()).Name = id
	for more && err == nil {
		_, err = a.Gate.Write(context.WithoutCancel(r.Context()), model.Config, func(tx store.Tx) error {
			more, err = delivery.Purge(tx, id, purged)
			return err
		})
	}
	if err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
	w.WriteHeader(http.StatusNoContent)
}

// forced reads the parameter force.
func forced(r *http.Request) (force bool, err error) {
	query, err := httpkit.Query(r)
	if err != nil {
		return false, err
	}
	err = readQuery(query, among(map[string]parameter{argForce: func(name, value string) []invalid {
		if value != "" && value != "true" && value != "false" {
			return []invalid{{Field: name, Reason: "must be true or false", Rule: "is_boolean", Source: fromQuery}}
		}
		force = value == "true"
		return nil
	}}))
	return force, err
}

func dropPortal(tx store.Tx, id string, force bool) (more bool, err error) {
	if _, err := portalIn(tx, id); err != nil {
		return false, err
	}
	n, err := tx.Count(cloud.Developers, ofPortal(id))
	if err != nil {
		return false, err
	}
	if n > 0 && !force {
		return false, refused(invalid{Field: argForce, Reason: fmt.Sprintf("must be true: the portal has %d developers", n), Rule: ruleRequired, Source: fromQuery})
	}
	if err := delivery.Forget(tx, id); err != nil {
		return false, err
	}
	// What logins of unknown addresses write has the name of the portal.
	if err := tx.Delete(cloud.Trials, "", id, 0); err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if more, err = delivery.Purge(tx, id, purged); err != nil {
		return false, err
	}
	return more, tx.Delete(cloud.Portals, "", id, 0)
}
