package oauthtest

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var files embed.FS

// Case is one test case: a world and steps in it.
type Case struct {
	// Name is unique, and part of the names of everything that the case creates.
	Name string `json:"name"`
	// Rule says in a sentence what the case shows.
	Rule string `json:"rule"`
	// Needs is empty if the endpoints of the OAuth server are enough. It is "gateway" if
	// steps request protected routes.
	Needs string `json:"needs"`
	// Config is merged into the configuration of the world's plugin. Application and Public
	// are merged into the confidential and the public client, Route into the route. Bare
	// leaves the plugin out.
	Config      map[string]any `json:"config"`
	Application map[string]any `json:"application"`
	Public      map[string]any `json:"public"`
	Route       map[string]any `json:"route"`
	Bare        bool           `json:"bare"`
	// Setup lists further entities, which are created after those of the world.
	Setup []Put  `json:"setup"`
	Steps []Step `json:"steps"`
}

// Put is an entity of the administration API.
type Put struct {
	Path string         `json:"path"`
	Doc  map[string]any `json:"doc"`
	// Save maps names of variables to fields of the answer.
	Save map[string]string `json:"save"`
}

// Step is one request and the expected answer.
type Step struct {
	// Name says what is special about the step; it may be empty.
	Name string `json:"name"`
	// Admin replaces the request to the gateway by one to the administration API.
	Admin *Admin `json:"admin"`
	Request
	Expect
	// Times is how often the request is sent, 1 if not given. Every answer must be as
	// expected. With Until, only the last one must be, and sending stops at the first answer
	// with the expected status.
	Times int  `json:"times"`
	Until bool `json:"until"`
	// Save maps names of variables to members of the answer's document, or to
	// "redirect." and a parameter of its redirect_uri.
	Save map[string]string `json:"save"`
}

// Admin is an administrative request. Its answer must have Status, or 200 if Status is not
// given.
type Admin struct {
	Method string         `json:"method"`
	Path   string         `json:"path"`
	Doc    map[string]any `json:"doc"`
	Status int            `json:"status"`
}

// Request is a request to the gateway. At most one of the bodies is set.
type Request struct {
	// Token, Authorize, Introspect and Revoke are forms that are posted to the endpoint of
	// that name on the world's route.
	Token      *string `json:"token"`
	Authorize  *string `json:"authorize"`
	Introspect *string `json:"introspect"`
	Revoke     *string `json:"revoke"`
	// Method is POST if there is a body and GET otherwise, unless it is given.
	Method string `json:"method"`
	// Path may contain a query.
	Path string `json:"path"`
	// Query is appended to the path of an endpoint.
	Query string `json:"query"`
	// Form, JSON and Raw are bodies that are sent unchanged. Type is the content type of Raw.
	Form string `json:"form"`
	JSON string `json:"json"`
	Raw  string `json:"raw"`
	Type string `json:"type"`
	// Multipart are the fields of a multipart form.
	Multipart map[string]string `json:"multipart"`
	// Headers holds a value or a list of values by name.
	Headers map[string]Values `json:"headers"`
	// Basic is "id:secret", sent as Authorization.
	Basic string `json:"basic"`
	// Scheme is https unless it is given.
	Scheme string `json:"scheme"`
	// Host is the authority of the request, unless it is that of the target.
	Host string `json:"host"`
	// HTTP2 asks for HTTP/2.
	HTTP2 bool `json:"http2"`
}

// Expect describes the expected answer. Members that are not given may be anything. Answers
// of the token and the authorisation endpoint must always forbid to store them.
type Expect struct {
	Status int `json:"status"`
	// Error is "error / error_description". Together with State it is the whole document.
	Error string `json:"error"`
	State any    `json:"state"`
	// Body is the whole document, Has some of its members. A null member of Has must be
	// absent.
	Body any            `json:"body"`
	Has  map[string]any `json:"has"`
	// Text is the whole body as text.
	Text *string `json:"text"`
	// Redirect is the whole redirect_uri, the only member of the document.
	Redirect string `json:"redirect"`
	// Answer holds headers; an empty value means that the header must be absent.
	Answer map[string]string `json:"answer"`
	// Upstream is what the upstream must have received.
	Upstream *Received `json:"upstream"`
}

// Received is a request as the upstream received it.
type Received struct {
	Path string  `json:"path"`
	Body *string `json:"body"`
	// Headers by name; an empty value means that the header must be absent.
	Headers map[string]string `json:"headers"`
}

// Values are the values of a header: one text, or several.
type Values []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(string(data), "[") {
		return yaml.Unmarshal(data, (*[]string)(v))
	}
	*v = make(Values, 1)
	return yaml.Unmarshal(data, &(*v)[0])
}

// Cases returns the cases of all files, in the order of their names.
func Cases() ([]Case, error) {
	names, err := fs.Glob(files, "testdata/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Case
	seen := map[string]bool{}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var cases []Case
		if err := yaml.UnmarshalStrict(data, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Base(name), err)
		}
		for _, c := range cases {
			if c.Name == "" || seen[c.Name] {
				return nil, fmt.Errorf("%s: the name %q is missing or taken", path.Base(name), c.Name)
			}
			seen[c.Name] = true
			all = append(all, c)
		}
	}
	return all, nil
}

// merged returns base with the members of over, which replace those of base.
func merged(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	maps.Copy(out, over)
	return out
}
