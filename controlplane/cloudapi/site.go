package cloudapi

import (
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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

// The API of a portal is on the hosts of the portal and, for who cannot give them names, below a path.
const (
	siteBase  = "/api/v2/developer"
	aliasBase = "/portals/{" + pathPortal + "}" + siteBase
)

// isSite reports whether a request is one to the API of a portal. Those are for developers, who are
// known by cookies and never by what else identifies callers of this API; and browsers of strangers
// make them, to host names that the portals have.
func (a *API) isSite(r *http.Request) (bool, error) {
	path := r.URL.Path
	if path == siteBase || strings.HasPrefix(path, siteBase+"/") || strings.HasPrefix(path, "/portals/") {
		return true, nil
	}
	host := hostOf(r)
	if a.below(host) {
		return true, nil
	}
	if a.named(host) || !cloud.IsDomain(host) {
		return false, nil // as most requests of administrators, who need no look at the store
	}
	err := a.Store.View(r.Context(), func(reader store.Reader) error {
		_, err := a.hosted(reader, host)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return true, err
}

// hostOf is the host of a request, without port and in lower case.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// named reports whether the settings give a host to this API. They win over what portals have: who may
// change a portal must not take the API from everybody.
func (a *API) named(host string) bool { return slices.Contains(a.Hosts, host) }

// besides returns the API of portals beside what manages them. On hosts of portals there is nothing
// else.
func (a *API) besides(management http.Handler) http.Handler {
	if !a.Regional {
		return management
	}
	refuse := func(w http.ResponseWriter, r *http.Request, err error) { a.fail(w, r, err, nil) }
	site := httpkit.NewRouter(a.SiteEndpoints(), refuse).Missing(
		func(w http.ResponseWriter, r *http.Request) { a.missing(w, r, http.StatusNotFound) },
		func(w http.ResponseWriter, r *http.Request) { a.missing(w, r, http.StatusMethodNotAllowed) },
	)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch is, err := a.isSite(r); {
		case err != nil:
			a.fail(w, r, err, nil)
		case is:
			site.ServeHTTP(w, r)
		default:
			management.ServeHTTP(w, r)
		}
	})
}

// SiteEndpoints lists the endpoints of the API of portals. Everybody may call them: developers have
// cookies instead of the identities of other callers.
func (a *API) SiteEndpoints() (list []httpkit.Endpoint) {
	for _, at := range []string{siteBase, aliasBase} {
		list = append(list,
			a.site(at, "", "Register", "portal_registration", http.StatusCreated, "", a.register),
			a.site(at, "/verify-email", "Exchange a verification token", "portal_verification", http.StatusAccepted, "portal_verified", a.verify),
			a.site(at, "/reset-password", "Set a password", "portal_reset", http.StatusNoContent, "", a.reset),
			a.site(at, "/authenticate", "Log in", "portal_credentials", http.StatusNoContent, "", a.authenticate),
			a.site(at, "/refresh", "Exchange the cookies of a session", "", http.StatusNoContent, "", a.refresh),
			a.site(at, "/logout", "Log out", "", http.StatusNoContent, "", a.logout),
			also(does(httpkit.Endpoint{Method: http.MethodGet, Pattern: at + "/me", Auth: access.Open, Summary: "Read who is logged in", Handler: a.onSite(a.me)}, "", http.StatusOK, "portal_developer"), http.StatusUnauthorized),
		)
	}
	return list
}

// site is an endpoint that changes something.
func (a *API) site(at, path, summary, body string, status int, answer string, handler siteHandler) httpkit.Endpoint {
	e := httpkit.Endpoint{Method: http.MethodPost, Pattern: at + path, Auth: access.Open, Summary: summary, Handler: a.onSite(a.ownPage(handler))}
	return also(does(e, body, status, answer), http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusGone)
}

// siteHandler answers a request to a portal.
type siteHandler func(w http.ResponseWriter, r *http.Request, at *model.Resource) error

// onSite finds the portal of a request, and answers with the error of a handler.
func (a *API) onSite(next siteHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var at *model.Resource
		err := a.Store.View(r.Context(), func(reader store.Reader) (err error) {
			at, err = a.siteOf(reader, r)
			return err
		})
		if err == nil {
			entry := httpkit.EntryOf(r.Context())
			entry.Kind, entry.Name = cloud.Portals.Name, at.Name
			err = next(w, r, at)
		}
		if err != nil {
			a.fail(w, r, tooMany(w, err), developers)
		}
	}
}

// siteOf finds the portal of a request, by its path or by its host. On the host of a portal there is no
// other portal.
func (a *API) siteOf(reader store.Reader, r *http.Request) (*model.Resource, error) {
	id, host := portalID(r), hostOf(r)
	at, err := a.hosted(reader, host)
	switch {
	case id == "", err != nil && !fault.Is(err, fault.NotFound):
		return at, err
	case err == nil && at.Name != id, err != nil && a.below(host):
		return nil, fault.New(fault.NotFound, "the host is not one of that portal")
	}
	return admit.Lookup(reader, portalAt(id))
}

// hosted finds the portal of a host.
func (a *API) hosted(reader store.Reader, host string) (*model.Resource, error) {
	if a.named(host) {
		return nil, fault.New(fault.NotFound, "the host is one of this API")
	}
	if slug, ok := strings.CutSuffix(host, "."+a.PortalDomain); ok && a.PortalDomain != "" {
		return reader.Find(cloud.Portals, "", cloud.IndexSlug, slug)
	}
	return reader.Find(cloud.Portals, "", cloud.IndexCustomDomain, host)
}

// ownPage refuses requests that a page of another site may have made: browsers send the cookies of the
// portal along, because they are for pages of other sites, too. A browser says in Sec-Fetch-Site and
// Origin whose page it is. Where it says nothing, the body must be JSON, or an empty one with that
// type: no page can send it elsewhere without asking before, and this API says no.
func (a *API) ownPage(next siteHandler) siteHandler {
	return func(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
		origins := r.Header.Values("Origin")
		own := len(origins) == 1 && sameHost(origins[0], r)
		from := r.Header.Get("Sec-Fetch-Site")
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		json := strings.EqualFold(strings.TrimSpace(kind), "application/json")
		switch {
		case from != "" && from != "same-origin", len(origins) > 0 && !own:
			return &problem{Status: http.StatusForbidden, Title: titleForbidden, Detail: "Requests of other sites are not answered"}
		case !own && !json:
			return &problem{Status: http.StatusForbidden, Title: titleForbidden, Detail: "The request needs an Origin of this host, or the Content-Type application/json"}
		}
		return next(w, r, at)
	}
}

// sameHost compares an Origin with the host of a request. Something before this API may end TLS, so
// that the scheme is not known.
func sameHost(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil) && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// tooMany sets the header that says when to try again, and returns the document.
func tooMany(w http.ResponseWriter, err error) error {
	if many, ok := errors.AsType[*portal.TooMany](err); ok {
		return later(w, many.Wait.Seconds())
	}
	if errors.Is(err, portal.ErrBusy) {
		return later(w, 1)
	}
	return err
}

func later(w http.ResponseWriter, seconds float64) *problem {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(seconds)))))
	return &problem{Status: http.StatusTooManyRequests, Title: "Too Many Requests", Detail: "There have been too many attempts; try again later"}
}

// traceOf is the number of a request for its event. An id that a client chose itself need not be a
// number; then the number is made from it.
func traceOf(r *http.Request) string {
	number, _ := httpkit.EntryOf(r.Context()).Number()
	return number
}

// gone is the document for a token that has ended; unknown ones are not found.
func gone(err error) error {
	if errors.Is(err, portal.ErrEnded) {
		return &problem{Status: http.StatusGone, Title: "Gone", Detail: "The token has expired"}
	}
	if errors.Is(err, portal.ErrFull) || errors.Is(err, portal.ErrPublic) {
		return ofDeveloper(err)
	}
	return err
}

// unauthorized is the document for who is not logged in.
func unauthorized(err error) error {
	if fault.Is(err, fault.Denied) {
		return &problem{Status: http.StatusUnauthorized, Title: titleUnauthorized, Detail: titleUnauthorized}
	}
	return err
}
