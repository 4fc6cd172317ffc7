package cloudapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// authSettings are the ways in which developers of a portal log in. Only passwords are offered.
type authSettings struct {
	BasicAuth   *bool `json:"basic_auth_enabled,omitempty"`
	OIDC        *bool `json:"oidc_auth_enabled,omitempty"`
	SAML        *bool `json:"saml_auth_enabled,omitempty"`
	TeamMapping *bool `json:"oidc_team_mapping_enabled,omitempty"`
	RoleMapping *bool `json:"cloud_mapping_enabled,omitempty"`
}

var settingsForm = newForm(authSettings{})

func (a *API) settingsEndpoints() []httpkit.Endpoint {
	const pattern = pathOf + "/authentication-settings"
	const schema = "portal_authentication_settings"
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: access.Read, Summary: "Read how developers of a portal log in", Handler: a.readSettings}, "", http.StatusOK, schema),
		does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: pattern, Auth: access.Write, Summary: "Change how developers of a portal log in", Handler: a.patchSettings}, schema, http.StatusOK, schema),
	}
}

func (a *API) readSettings(w http.ResponseWriter, r *http.Request) {
	res, err := a.portal(r)
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.showSettings(w, r, res.Spec.(*cloud.Portal))
}

// portal reads the portal that a path names.
func (a *API) portal(r *http.Request) (res *model.Resource, err error) {
	err = a.Store.View(r.Context(), func(reader store.Reader) error {
		res, err = portalIn(reader, portalID(r))
		return err
	})
	if err == nil {
		httpkit.EntryOf(r.Context()).Name = res.Name
	}
	return res, err
}

func (a *API) showSettings(w http.ResponseWriter, r *http.Request, p *cloud.Portal) {
	off := new(bool)
	a.answer(w, r, http.StatusOK, authSettings{BasicAuth: &p.BasicAuth, OIDC: off, SAML: off, TeamMapping: off, RoleMapping: off})
}

// answer writes a document that is no resource.
func (a *API) answer(w http.ResponseWriter, r *http.Request, status int, doc any) {
	if err := httpkit.WriteJSON(w, status, doc); err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
}

func (a *API) patchSettings(w http.ResponseWriter, r *http.Request) {
	_, err := a.portal(r)
	var given authSettings
	if err == nil {
		err = settingsForm.fill(a, w, r, &given)
	}
	if err == nil {
		err = given.offered()
	}
	var spec cloud.Portal
	if err == nil {
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			res, err := portalIn(tx, portalID(r))
			if err != nil {
				return err
			}
			spec = *res.Spec.(*cloud.Portal)
			if given.BasicAuth == nil || *given.BasicAuth == spec.BasicAuth {
				return nil
			}
			spec.BasicAuth = *given.BasicAuth
			spec.Era++ // sessions do not come back when passwords do
			_, err = tx.Update(&model.Resource{Kind: cloud.Portals, Name: res.Name, Spec: &spec}, res.Version)
			return err
		})
	}
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.showSettings(w, r, &spec)
}

// offered refuses to switch on what there is not: who relies on it would be locked out.
func (s authSettings) offered() error {
	var bad []invalid
	for _, way := range []struct {
		field string
		on    *bool
	}{
		{"oidc_auth_enabled", s.OIDC}, {"saml_auth_enabled", s.SAML}, {"oidc_team_mapping_enabled", s.TeamMapping}, {"cloud_mapping_enabled", s.RoleMapping},
	} {
		if way.on != nil && *way.on {
			bad = append(bad, invalid{Field: way.field, Reason: "is not offered", Rule: ruleInvalid, Source: fromBody})
		}
	}
	if len(bad) > 0 {
		return refused(bad...)
	}
	return nil
}
