package oauth

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// reader reads paths as the filter does. chain hands over every endpoint; guarded hands over
// only what passes without asking a plugin.
type reader struct{ chain, guarded *engine.Program }

func newReader(t testing.TB, further bool) reader {
	own := contract.Plugin{ID: "p1", OAuth2: &contract.OAuth2{Header: "authorization", Endpoints: further}}
	key := contract.Plugin{ID: "p2", KeyAuth: &contract.KeyAuth{Names: []string{"apikey"}, InHeader: true}}
	compile := func(plugins ...contract.Plugin) *engine.Program {
		p, err := engine.Compile(&contract.Chain{Issues: true, Service: "s1", Plugins: plugins})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return reader{compile(own), compile(own, key)}
}

// reads returns how the filter treats a path without credentials.
func (r reader) reads(path string) (handedOver, public bool) {
	issued := func(p *engine.Program) bool {
		req := &engine.Request{Path: []byte(path), Headers: make([][]byte, len(p.Headers()))}
		return p.Decide(req, nil, make([]byte, engine.BufferSize)).Action == engine.Issue
	}
	return issued(r.chain), issued(r.guarded)
}

// served returns how the server reads a path that comes over the wire.
func served(path string) (is endpoint, ok bool) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")))
	if err != nil || r.RequestURI != path {
		return endpointUnknown, false
	}
	is, _ = recognise(sentPath(r.URL))
	return is, true
}

// wantAlike compares how the server and the filter read a path.
func wantAlike(t *testing.T, path string) {
	t.Helper()
	is, ok := served(path)
	if !ok || path[0] != '/' { // the proxy refuses such a path
		return
	}
	for _, further := range []bool{false, true} {
		handedOver, public := newReader(t, further).reads(path)
		switch {
		case public && is != endpointMetadata:
			t.Errorf("%q has passed no plugin and is the %s", path, is.name())
		case public != (handedOver && is == endpointMetadata):
			t.Errorf("%q has to pass the plugins of the chain, as the %s", path, is.name())
		case handedOver && (is == endpointUnknown || is.optional() && !further):
			t.Errorf("%q is handed over, endpoints %v, and is the %s", path, further, is.name())
		}
	}
}

// pathsOfBothHalves are paths that the filter and the server could read in different ways.
var pathsOfBothHalves = []string{
	"/", "/x", "/oauth2/token", "/oauth2/token/", "/a/oauth2/authorize?x", "/a/oauth2/introspect", "/a/oauth2/revoke/?/oauth2/token",
	pathMetadata, pathMetadata + "/", pathMetadata + "/a", pathMetadata + "?/oauth2/token", pathMetadata + "s", pathMetadata + "s/oauth2/token",
	pathMetadata + pathToken, pathMetadata + pathAuthorize, pathMetadata + pathIntrospect, pathMetadata + pathRevoke,
	pathMetadata + "/api/oauth2/token", pathMetadata + "/api/oauth2/token/", pathMetadata + "/api/oauth2/token?a=b", pathMetadata + "/a|%2Foauth2%2Ftoken",
	pathMetadata + "%2Foauth2%2Ftoken", pathMetadata + "%2Fa|/oauth2/token", pathMetadata + ";a/oauth2/token", pathMetadata + "#/oauth2/token",
	"/a" + pathMetadata, "/a" + pathMetadata + "/oauth2/token", "/|%2Foauth2%2Ftoken", "/%2Ewell-known/oauth-authorization-server|/oauth2/token",
	"/.well-known%2Foauth-authorization-server/|/oauth2/token", "//oauth2/token", "/oauth2%2Ftoken", "/oauth2/token%20", "/oauth2/token;a", "/oauth2/token#",
}

// TestBothHalvesReadPathsAlike: every path that the filter hands over without asking other
// plugins is metadata for the server, and no other path is.
func TestBothHalvesReadPathsAlike(t *testing.T) {
	for _, path := range pathsOfBothHalves {
		wantAlike(t, path)
	}
}

func FuzzBothHalves(f *testing.F) {
	for _, path := range pathsOfBothHalves {
		f.Add(path)
	}
	f.Fuzz(wantAlike)
}

// TestMetadataIssueNothing: no path below the prefix of metadata is another endpoint, even
// for requests with valid credentials.
func TestMetadataIssueNothing(t *testing.T) {
	cfg := strict()
	cfg.EnableClientCredentials = true
	w := newWorld(t, cfg)
	for _, is := range suffixes {
		for _, path := range []string{pathMetadata + is.path, pathMetadata + "/api" + is.path, pathMetadata + "/api" + is.path + "/"} {
			rec := w.ask(http.MethodPost, path, form, "grant_type=client_credentials&"+asApp+"&token=x", nil)
			if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") == http.MethodPost {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
	}
	if len(w.minted()) != 0 {
		t.Error("a token was minted")
	}
}
