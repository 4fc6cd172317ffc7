package meshapi

import (
	"html"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

const pathPage = "page"

// gui returns the endpoints where clients expect a console. There is none: whoever comes to /gui
// or to a page right below it is told so, and where the control plane can be seen instead. Deeper ones
// are not found.
func (a *API) gui() (list []httpkit.Endpoint) {
	about := []byte("<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>" + html.EscapeString(a.product()) + "</title></head>\n" +
		"<body><p>This control plane has no graphical console. What it knows is at <a href=\"/\">this API</a>, which " +
		"<a href=\"/openapi.json\">/openapi.json</a> describes, and <code>meshgate status</code> shows the state of its proxies.</p></body>\n</html>\n")
	show := func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, mediaHTML+"; charset=utf-8", about)
	}
	for _, pattern := range []string{"/" + pathGUI, "/" + pathGUI + "/{" + pathPage + "}"} {
		list = append(list, does(endpoint(http.MethodGet, pattern, access.Open, "Say that there is no console", mediaHTML, show), shows(schemaHTML)))
	}
	return list
}
