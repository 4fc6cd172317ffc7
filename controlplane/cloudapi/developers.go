package cloudapi

import (
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
)

// developers is the collection of the developers of a portal.
var developers = &Collection{
	Kind: cloud.Developers, Title: "Developer", Created: http.StatusCreated, Paging: byNumber,
	Filters: []string{model.FieldID, "email", "full_name", "status"},
	Sorts:   []string{"email", "full_name", "status", model.FieldCreated, model.FieldUpdated},
	At: func(r *http.Request) admit.Address {
		return admit.Address{
			Kind: cloud.Developers, Key: strings.ToLower(r.PathValue(pathDeveloper)),
			Under: &admit.Relation{Address: portalAt(portalID(r)), Ref: cloud.IndexPortal},
		}
	},
}

const pathDeveloper = "developerId"

// developerChange is the body of a change. Status is how somebody else decides about a developer;
// whoever is not approved any more is logged out. A new password logs out, too, and is for
// administrators: see mayPassword.
type developerChange struct {
	Status   string `json:"status,omitempty" jsonschema:"enum=approved,enum=pending,enum=revoked,enum=rejected"`
	Password string `json:"password,omitempty" jsonschema_extras:"x-check=password"`
}

// developerExtra are members of a creation that the developer itself has not.
type developerExtra struct {
	Password   string `json:"password,omitempty" jsonschema_extras:"x-check=password"`
	Invitation *bool  `json:"send_invitation_email,omitempty"`
}

var (
	changeForm = newForm(developerChange{})
	extraForm  = newForm(developerExtra{})
)

func (a *API) developerEndpoints() []httpkit.Endpoint {
	const list = pathOf + "/developers"
	const item = list + "/{" + pathDeveloper + "}"
	s := served{a, developers}
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: list, Auth: access.Read, Summary: "List the developers of a portal", Handler: a.listDevelopers}, "", http.StatusOK, "portal_developer_page", developers.parameters()...),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: list, Auth: access.Write, Summary: "Create a developer", Handler: a.createDeveloper}, "portal_developer_request", http.StatusCreated, "portal_developer"),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item, Auth: access.Read, Summary: "Read a developer", Handler: s.get}, "", http.StatusOK, "portal_developer"),
		does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: item, Auth: access.Write, Summary: "Change the status or, for administrators, the password of a developer", Handler: a.patchDeveloper}, "portal_developer_change", http.StatusOK, "portal_developer"),
		does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: item, Auth: access.Write, Summary: "Delete a developer", Handler: s.remove}, "", http.StatusNoContent, ""),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: item + "/verification-token", Auth: access.Administrator, Summary: "Make a token by which a developer sets a password", Handler: a.inviteDeveloper}, "", http.StatusCreated, "portal_verification_token"),
	}
}

func (a *API) listDevelopers(w http.ResponseWriter, r *http.Request) {
	res, err := a.portal(r)
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	served{a, developers}.listOf(w, r, ofPortal(res.Name))
}

// createDeveloper adds a developer, who can log in at once if a password is given, which is for administrators.
func (a *API) createDeveloper(w http.ResponseWriter, r *http.Request) {
	res, err := a.portal(r)
	var spec cloud.Developer
	var hash string
	if err == nil {
		spec, hash, err = a.newDeveloper(w, r)
	}
	var dev *model.Resource
	if err == nil {
		spec.Portal = res.Name
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			if dev, err = portal.Add(tx, &spec, a.Now()); err != nil || hash == "" {
				return err
			}
			return portal.SetPassword(tx, dev.Name, hash)
		})
	}
	if err != nil {
		a.fail(w, r, ofDeveloper(err), developers)
		return
	}
	served{a, developers}.show(w, r, http.StatusCreated, dev, nil)
}

// newDeveloper reads a creation.
func (a *API) newDeveloper(w http.ResponseWriter, r *http.Request) (spec cloud.Developer, hash string, err error) {
	given, err := object(w, r)
	if err != nil {
		return spec, "", err
	}
	others := map[string]any{}
	given = maps.Clone(given)
	for _, name := range []string{"password", "send_invitation_email"} {
		if v, ok := given[name]; ok {
			others[name] = v
			delete(given, name)
		}
	}
	var extra developerExtra
	if err = extraForm.check(a, others, &extra); err == nil && extra.Invitation != nil && *extra.Invitation {
		err = refused(invalid{Field: "send_invitation_email", Reason: "no mail is sent: make a verification token and hand it over", Rule: ruleInvalid, Source: fromBody})
	}
	if err == nil {
		err = form{developers}.check(a, given, &spec)
	}
	if err == nil {
		hash, err = a.hashed(r, extra.Password)
	}
	return spec, hash, err
}

// hashed returns the hash of a password of a developer, which is empty if none is given. It costs much, so that who
// may not set the password is refused before.
func (a *API) hashed(r *http.Request, password string) (string, error) {
	if password == "" {
		return "", nil
	}
	if err := a.mayPassword(r); err != nil {
		return "", err
	}
	return a.Accounts.Hash(r.Context(), password)
}

// ofDeveloper gives errors of developers the words of this API.
func ofDeveloper(err error) error {
	switch {
	case fault.Is(err, fault.Unique):
		return conflict("Developer with the given email already exists")
	case errors.Is(err, portal.ErrFull), errors.Is(err, portal.ErrPublic):
		f, _ := errors.AsType[*fault.Error](err)
		return conflict(strings.ToUpper(f.Detail[:1]) + f.Detail[1:])
	}
	return err
}

func (a *API) patchDeveloper(w http.ResponseWriter, r *http.Request) {
	s := served{a, developers}
	dev, err := s.read(r)
	var change developerChange
	if err == nil {
		err = changeForm.fill(a, w, r, &change)
	}
	var hash string
	if err == nil {
		hash, err = a.hashed(r, change.Password)
	}
	if err == nil {
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			if dev, err = admit.Lookup(tx, s.address(r)); err != nil {
				return err
			}
			dev, err = change.apply(tx, dev, hash)
			return err
		})
	}
	if err != nil {
		a.fail(w, r, ofDeveloper(err), developers)
		return
	}
	s.show(w, r, http.StatusOK, dev, nil)
}

// mayPassword leaves passwords of developers to administrators, as verification tokens are, which come to the same:
// who sets a password can log in as that developer. It does so at a creation, too: others could delete a developer
// and make it anew.
func (a *API) mayPassword(r *http.Request) error {
	return httpkit.Permit(a.Rules, r, access.Administrator, access.Scope{}, func(who model.Actor) string {
		return httpkit.Cannot(who, "the password of a developer")
	})
}

// apply makes a change in a transaction.
func (c developerChange) apply(tx store.Tx, dev *model.Resource, hash string) (*model.Resource, error) {
	spec := *dev.Spec.(*cloud.Developer)
	if c.Status != "" && c.Status != spec.Status {
		spec.Status = c.Status
		var err error
		if dev, err = tx.Update(&model.Resource{Kind: cloud.Developers, Name: dev.Name, Spec: &spec}, dev.Version); err != nil {
			return nil, err
		}
		if spec.Status != cloud.Approved {
			if err := portal.EndAll(tx, dev.Name); err != nil {
				return nil, err
			}
		}
	}
	if hash != "" {
		return dev, portal.SetPassword(tx, dev.Name, hash)
	}
	return dev, nil
}

// verificationToken is the answer that hands out a token, once.
type verificationToken struct {
	Email     string `json:"email"`
	Token     string `json:"token"`
	ExpiresAt string `json:"expires_at"`
}

// inviteDeveloper makes the token that other systems send by mail.
func (a *API) inviteDeveloper(w http.ResponseWriter, r *http.Request) {
	s := served{a, developers}
	dev, err := s.read(r)
	out := verificationToken{}
	if err == nil {
		token, ends, failed := a.Accounts.Invite(r.Context(), dev.Name)
		out, err = verificationToken{Email: dev.Spec.(*cloud.Developer).Email, Token: token, ExpiresAt: stamp(ends)}, failed
	}
	if err != nil {
		a.fail(w, r, err, developers)
		return
	}
	a.answer(w, r, http.StatusCreated, out)
}
