package cloudapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	// fieldPlanes is where an access token names the control planes that it is for.
	fieldPlanes = "control_planes"
	// maxPlanesOfToken bounds them.
	maxPlanesOfToken = 256
)

// accessTokens are personal access tokens. Callers name control planes, which may get another name;
// stored are their scopes.
var accessTokens = &Collection{
	Kind: cloud.AccessTokens, Title: "Personal access token", Global: true, Auth: access.Administrator, Fixed: true,
	Created: http.StatusCreated, Paging: byNumber, Filters: []string{"name"},
	Issue: issueToken, Resolve: scopesOfToken, Complete: namesOfToken,
}

// issueToken makes a personal access token, which is shown once.
func issueToken() (hidden, shown map[string]any) {
	token, digest := cloud.IssueToken()
	return map[string]any{"digest": digest}, map[string]any{"token": token}
}

// scopesOfToken replaces the names and ids of control planes by their scopes. What is no list of texts
// is left for the check of all members.
func scopesOfToken(r store.Reader, values map[string]any) error {
	named, _ := values[fieldPlanes].([]any)
	if most := maxPlanesOfToken; len(named) > most {
		return refused(invalid{Field: fieldPlanes, Reason: fmt.Sprintf("must be at most %d", most), Rule: ruleMaxItems, Maximum: &most, Source: fromBody})
	}
	scopes := make([]any, 0, len(named))
	var bad []invalid
	for i, v := range named {
		name, isText := v.(string)
		if !isText {
			return nil
		}
		scope, err := cloud.ScopeNamed(r, name)
		switch {
		case fault.Is(err, fault.NotFound):
			bad = append(bad, invalid{Field: fieldPlanes + entry(i), Reason: "there is no control plane of this name or id", Rule: ruleInvalid, Source: fromBody})
		case err != nil:
			return err
		case !slices.Contains(scopes, any(scope)):
			scopes = append(scopes, scope)
		}
	}
	if len(bad) > 0 {
		return refused(bad...)
	}
	if len(named) > 0 {
		values[fieldPlanes] = scopes
	}
	return nil
}

// namesOfToken shows the names of control planes. One that was deleted has none, so its scope is shown.
func namesOfToken(a *API, res *model.Resource, doc map[string]any) error {
	planes := slices.Clone(res.Spec.(*cloud.AccessToken).ControlPlanes)
	if len(planes) == 0 {
		return nil
	}
	err := a.Store.View(context.Background(), func(r store.Reader) error {
		for i, scope := range planes {
			plane, err := r.Get(cloud.ControlPlanes, "", cloud.IDOf(scope))
			switch {
			case err == nil:
				planes[i] = plane.Spec.(*cloud.ControlPlane).Name
			case !fault.Is(err, fault.NotFound):
				return err
			}
		}
		return nil
	})
	doc[fieldPlanes] = planes
	return err
}
