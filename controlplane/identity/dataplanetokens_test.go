package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// tokenTest has a mesh m with key 1 and the dataplanes web and gw, and a mesh other with the
// last of the test keys.
type tokenTest struct {
	*DataplaneTokens
	t     testing.TB
	store store.Store
	clock *identitytest.Clock
}

func newTokenTest(t testing.TB) *tokenTest { return tokenTestOn(t, identitytest.Memory(t)) }

func tokenTestOn(t testing.TB, s store.Store) *tokenTest {
	c := identitytest.NewClock()
	tt := &tokenTest{NewDataplaneTokens(s, c.Now), t, s, c}
	for _, m := range []string{"m", "other"} {
		storetest.Place(t, s, mesh.Meshes, "", m, &mesh.Mesh{})
		storetest.Place(t, s, mesh.Dataplanes, m, "web", &mesh.Dataplane{Networking: &mesh.Networking{Inbound: []mesh.Inbound{
			{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", "version": "1"}},
			{Port: 81, Tags: mesh.Tags{mesh.TagService: "web-admin", "team": "a"}},
		}}})
	}
	storetest.Place(t, s, mesh.Dataplanes, "m", "gw.v1", &mesh.Dataplane{Networking: &mesh.Networking{Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}}})
	tt.key("m", "1", pkcs1(signingKeys()[0]))
	tt.key("other", "1", pkcs1(signingKeys()[2]))
	return tt
}

func (tt *tokenTest) secret(meshName, name string, data []byte) {
	tt.t.Helper()
	storetest.Place(tt.t, tt.store, mesh.Secrets, meshName, name, &mesh.Secret{Data: data})
}

func (tt *tokenTest) key(meshName, serial string, data []byte) {
	tt.t.Helper()
	tt.secret(meshName, "dataplane-token-signing-key-"+meshName+"-"+serial, data)
}

func (tt *tokenTest) removeKey(meshName, serial string) {
	tt.t.Helper()
	storetest.Place(tt.t, tt.store, mesh.Secrets, meshName, "dataplane-token-signing-key-"+meshName+"-"+serial, nil)
}

func (tt *tokenTest) issue(r DataplaneTokenRequest) string {
	tt.t.Helper()
	token, err := tt.Issue(tt.t.Context(), r)
	if err != nil {
		tt.t.Fatal(err)
	}
	return token
}

func (tt *tokenTest) authenticate(node, token string) error {
	_, err := tt.Authenticate(tt.t.Context(), node, token)
	return err
}

// part decodes the header (0) or the claims (1) of a token.
func part(t testing.TB, token string, i int) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDataplaneTokenRequest(t *testing.T) {
	tt := newTokenTest(t)
	for name, test := range map[string]struct {
		in   DataplaneTokenRequest
		want []fault.Violation
	}{
		"no mesh":      {DataplaneTokenRequest{}, []fault.Violation{{Path: "mesh", Message: "cannot be empty"}}},
		"type":         {DataplaneTokenRequest{Mesh: "m", Type: "foo"}, []fault.Violation{{Path: "type", Message: "foo is not a valid proxy type"}}},
		"type in case": {DataplaneTokenRequest{Mesh: "m", Type: "Ingress"}, []fault.Violation{{Path: "type", Message: "Ingress is not a valid proxy type"}}},
		"duration":     {DataplaneTokenRequest{Mesh: "m", ValidFor: "x"}, []fault.Violation{{Path: "validFor", Message: `is invalid: time: invalid duration "x"`}}},
		"no unit":      {DataplaneTokenRequest{Mesh: "m", ValidFor: "5"}, []fault.Violation{{Path: "validFor", Message: `is invalid: time: missing unit in duration "5"`}}},
		"too much":     {DataplaneTokenRequest{Mesh: "m", ValidFor: "9999999h"}, []fault.Violation{{Path: "validFor", Message: `is invalid: time: invalid duration "9999999h"`}}},
		"zero":         {DataplaneTokenRequest{Mesh: "m", ValidFor: "0s"}, []fault.Violation{{Path: "validFor", Message: "is invalid: must be at least one second"}}},
		"without end":  {DataplaneTokenRequest{Mesh: "m", ValidFor: strings.Repeat("0h", 40) + "1h"}, []fault.Violation{{Path: "validFor", Message: "is invalid: must not be longer than 64 bytes"}}},
		"negative":     {DataplaneTokenRequest{Mesh: "m", ValidFor: "-1h"}, []fault.Violation{{Path: "validFor", Message: "is invalid: must be at least one second"}}},
		"expired when it is issued": {DataplaneTokenRequest{Mesh: "m", ValidFor: "999ms"}, []fault.Violation{
			{Path: "validFor", Message: "is invalid: must be at least one second"},
		}},
		"all at once": {DataplaneTokenRequest{Type: "foo", ValidFor: "x"}, []fault.Violation{
			{Path: "mesh", Message: "cannot be empty"}, {Path: "type", Message: "foo is not a valid proxy type"},
			{Path: "validFor", Message: `is invalid: time: invalid duration "x"`},
		}},
		"too long to be used": {DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"a": {strings.Repeat("x", maxTokenLength)}}}, []fault.Violation{
			{Path: "tags", Message: "make a token of more than 8192 bytes, which nobody could use"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := tt.Issue(t.Context(), test.in)
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.Invalid || token != "" {
				t.Fatalf("%v, token %q", err, token)
			}
			if diff := cmp.Diff(test.want, e.Violations); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDataplaneTokenClaims(t *testing.T) {
	tt := newTokenTest(t)
	at := func(d time.Duration) float64 { return float64(identitytest.Epoch.Add(d).Unix()) }
	for name, test := range map[string]struct {
		in   DataplaneTokenRequest
		want map[string]any
	}{
		"least": {DataplaneTokenRequest{Mesh: "m"}, map[string]any{
			"Name": "", "Mesh": "m", "Tags": map[string]any{}, "Type": "",
			"iat": at(0), "nbf": at(-5 * time.Minute), "exp": at(3650 * 24 * time.Hour),
		}},
		"most": {DataplaneTokenRequest{Mesh: "m", Name: "web", Type: "ingress", ValidFor: "1h30m", Tags: map[string][]string{"a": {"1", "2"}}}, map[string]any{
			"Name": "web", "Mesh": "m", "Tags": map[string]any{"a": []any{"1", "2"}}, "Type": "ingress",
			"iat": at(0), "nbf": at(-5 * time.Minute), "exp": at(90 * time.Minute),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			token := tt.issue(test.in)
			if diff := cmp.Diff(map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}, part(t, token, 0)); diff != "" {
				t.Error(diff)
			}
			got := part(t, token, 1)
			id, _ := got["jti"].(string)
			if _, err := uuid.Parse(id); err != nil {
				t.Errorf("jti %q: %v", id, err)
			}
			if again := part(t, tt.issue(test.in), 1)["jti"]; again == id {
				t.Errorf("two tokens have the id %q", id)
			}
			delete(got, "jti")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// dataplaneClaims returns the claims of a good token for any dataplane of mesh m, with
// changes.
func dataplaneClaims(changes ...any) jwt.MapClaims {
	c := jwt.MapClaims{
		"jti": "id-1", "exp": identitytest.Epoch.Add(time.Hour).Unix(), "nbf": identitytest.Epoch.Add(-time.Minute).Unix(),
		"Name": "", "Mesh": "m", "Tags": map[string][]string{}, "Type": "",
	}
	for i := 0; i < len(changes); i += 2 {
		if c[changes[i].(string)] = changes[i+1]; changes[i+1] == nil {
			delete(c, changes[i].(string))
		}
	}
	return c
}

func TestDataplaneTokenForged(t *testing.T) {
	tt := newTokenTest(t)
	key := signingKeys()[0]
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pemtext.Encode("PUBLIC KEY", der)
	rs := func(kid any, changes ...any) string {
		return sign(t, jwt.SigningMethodRS256, kid, key, dataplaneClaims(changes...))
	}
	good := rs("1")
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"1"}`)) + "." + parts[1] + "."
	for _, test := range []struct {
		name, token string
		want        fault.Code
	}{
		{"good", good, ""},
		{"with its scheme", "Bearer " + good, ""},
		{"type dataplane", rs("1", "Type", "dataplane"), ""},
		{"no tags", rs("1", "Tags", nil), ""},
		{"alg none", none, fault.Denied},
		{"alg none by the library", sign(t, jwt.SigningMethodNone, "1", jwt.UnsafeAllowNoneSignatureType, dataplaneClaims()), fault.Denied},
		{"HS256 with the public key", sign(t, jwt.SigningMethodHS256, "1", public, dataplaneClaims()), fault.Denied},
		{"HS256 with the public key in DER", sign(t, jwt.SigningMethodHS256, "1", der, dataplaneClaims()), fault.Denied},
		{"HS256 with the secret", sign(t, jwt.SigningMethodHS256, "1", pkcs1(key), dataplaneClaims()), fault.Denied},
		{"ES256", sign(t, jwt.SigningMethodES256, "1", ec, dataplaneClaims()), fault.Denied},
		{"RS512", sign(t, jwt.SigningMethodRS512, "1", key, dataplaneClaims()), fault.Denied},
		{"PS256", sign(t, jwt.SigningMethodPS256, "1", key, dataplaneClaims()), fault.Denied},
		{"another key", sign(t, jwt.SigningMethodRS256, "1", signingKeys()[1], dataplaneClaims()), fault.Denied},
		{"the key of another mesh", sign(t, jwt.SigningMethodRS256, "1", signingKeys()[2], dataplaneClaims()), fault.Denied},
		{"kid of nothing", rs("2"), fault.Denied},
		{"kid missing", rs(nil), fault.Denied},
		{"kid number", rs(1), fault.Denied},
		{"kid object", rs(map[string]any{"a": 1}), fault.Denied},
		{"kid list", rs([]string{"1"}), fault.Denied},
		{"kid bool", rs(true), fault.Denied},
		{"kid empty", rs(""), fault.Denied},
		{"kid 01", rs("01"), fault.Denied},
		{"kid +1", rs("+1"), fault.Denied},
		{"kid 0", rs("0"), fault.Denied},
		{"kid -1", rs("-1"), fault.Denied},
		{"kid with space", rs(" 1"), fault.Denied},
		{"kid of a path", rs("../x"), fault.Denied},
		{"kid too large", rs("99999999999999999999"), fault.Denied},
		{"expired", rs("1", "exp", identitytest.Epoch.Add(-time.Second).Unix()), fault.Denied},
		{"expires now", rs("1", "exp", identitytest.Epoch.Unix()), fault.Denied},
		{"not yet valid", rs("1", "nbf", identitytest.Epoch.Add(time.Second).Unix()), fault.Denied},
		{"no exp", rs("1", "exp", nil), fault.Denied},
		{"exp is text", rs("1", "exp", "tomorrow"), fault.Denied},
		{"exp is huge", rs("1", "exp", 1e300), fault.Denied},
		{"no id", rs("1", "jti", nil), fault.Denied},
		{"no mesh", rs("1", "Mesh", nil), fault.Denied},
		{"mesh of a path", rs("1", "Mesh", "../m"), fault.Denied},
		{"mesh unknown", rs("1", "Mesh", "x"), fault.Denied},
		{"mesh too long", rs("1", "Mesh", strings.Repeat("m", 300)), fault.Denied},
		{"mesh is a number", rs("1", "Mesh", 7), fault.Denied},
		{"tags are a list", rs("1", "Tags", []string{"a"}), fault.Denied},
		{"cut", good[:len(good)-2], fault.Denied},
		{"other claims under the signature", parts[0] + "." + strings.Split(rs("1", "Name", "x"), ".")[1] + "." + parts[2], fault.Denied},
		{"empty", "", fault.Denied},
		{"dots", "..", fault.Denied},
		{"too long", rs("1", "pad", strings.Repeat("x", maxTokenLength)), fault.Denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := tt.authenticate("m.web", test.token); fault.CodeOf(err) != test.want {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, err := tt.Check(t.Context(), test.token); fault.CodeOf(err) != test.want {
				t.Errorf("Check: %v, want %q", err, test.want)
			}
		})
	}
}

// TestDataplaneTokenBound checks the bindings of tokens against web, which has two inbounds.
func TestDataplaneTokenBound(t *testing.T) {
	tt := newTokenTest(t)
	service := func(values ...string) map[string][]string { return map[string][]string{mesh.TagService: values} }
	for name, test := range map[string]struct {
		node   string
		in     DataplaneTokenRequest
		code   fault.Code
		detail string
	}{
		"any":                 {"m.web", DataplaneTokenRequest{Mesh: "m"}, "", ""},
		"name":                {"m.web", DataplaneTokenRequest{Mesh: "m", Name: "web"}, "", ""},
		"name with a dot":     {"m.gw.v1", DataplaneTokenRequest{Mesh: "m", Name: "gw.v1", Type: "dataplane"}, "", ""},
		"every value":         {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: service("web", "web-admin", "more")}, "", ""},
		"tag of one inbound":  {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"version": {"1"}, "team": {"a"}}}, "", ""},
		"gateway":             {"m.gw.v1", DataplaneTokenRequest{Mesh: "m", Tags: service("edge")}, "", ""},
		"another name":        {"m.web", DataplaneTokenRequest{Mesh: "m", Name: "web-2"}, fault.Forbidden, "proxy name web is different than in token: web-2"},
		"another mesh":        {"other.web", DataplaneTokenRequest{Mesh: "m"}, fault.Forbidden, "the proxy's mesh other is not the token's m"},
		"not all values":      {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: service("web")}, fault.Forbidden, `the dataplane's tag "mesh.io/service" has value "web-admin", which the token does not allow`},
		"no such tag":         {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"zone": {"a"}}}, fault.Forbidden, `the dataplane has no tag "zone", which the token demands`},
		"the first of many":   {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"z": nil, "b": nil, "x": nil}}, fault.Forbidden, `the dataplane has no tag "b", which the token demands`},
		"no values":           {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"team": {}}}, fault.Forbidden, `the dataplane's tag "team" has value "a", which the token does not allow`},
		"a star is no star":   {"m.web", DataplaneTokenRequest{Mesh: "m", Tags: map[string][]string{"team": {"*"}}}, fault.Forbidden, `the dataplane's tag "team" has value "a", which the token does not allow`},
		"gateway's tag":       {"m.gw.v1", DataplaneTokenRequest{Mesh: "m", Tags: service("web")}, fault.Forbidden, `the dataplane's tag "mesh.io/service" has value "edge", which the token does not allow`},
		"ingress":             {"m.web", DataplaneTokenRequest{Mesh: "m", Type: "ingress"}, fault.Forbidden, `the token is for proxies of type "ingress", not for dataplanes`},
		"egress":              {"m.web", DataplaneTokenRequest{Mesh: "m", Type: "egress"}, fault.Forbidden, `the token is for proxies of type "egress", not for dataplanes`},
		"not stored":          {"m.nope", DataplaneTokenRequest{Mesh: "m"}, fault.NotFound, "dataplane nope of mesh m does not exist; create it first"},
		"not stored, not its": {"m.nope", DataplaneTokenRequest{Mesh: "m", Name: "web"}, fault.Forbidden, "proxy name nope is different than in token: web"},
		"no dot":              {"web", DataplaneTokenRequest{Mesh: "m"}, fault.Forbidden, `node id "web" is not <mesh>.<dataplane>`},
		"no mesh":             {".web", DataplaneTokenRequest{Mesh: "m"}, fault.Forbidden, `node id ".web" is not <mesh>.<dataplane>`},
		"no name":             {"m.", DataplaneTokenRequest{Mesh: "m"}, fault.Forbidden, `node id "m." is not <mesh>.<dataplane>`},
		"long node":           {"m." + strings.Repeat("x", 510), DataplaneTokenRequest{Mesh: "m"}, fault.Forbidden, "a node id has at most 507 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			test.in.ValidFor = "2h"
			until, err := tt.Authenticate(t.Context(), test.node, tt.issue(test.in))
			if test.code == "" {
				if err != nil || !until.Equal(identitytest.Epoch.Add(2*time.Hour)) {
					t.Errorf("until %s, %v", until, err)
				}
				return
			}
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != test.code || e.Detail != test.detail || !until.IsZero() {
				t.Errorf("until %s, %v", until, err)
			}
		})
	}
}

func TestDataplaneTokenExpires(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m", ValidFor: "1h"})
	tt.clock.Advance(time.Hour - time.Second)
	if err := tt.authenticate("m.web", token); err != nil {
		t.Error(err)
	}
	tt.clock.Advance(time.Second)
	if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Denied) {
		t.Errorf("at its end: %v", err)
	}
}

func TestDataplaneTokenRevoked(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	id := part(t, token, 1)["jti"].(string)
	for list, revoked := range map[string]bool{
		id: true, id + "\n": true, id + "\r\n": true, "a," + id: true, "a," + id + ",b": true, "a, " + id + " ,b\n": true, "a,\n" + id: true, ",," + id: true,
		"": false, "\n": false, ",": false, "a,b": false, id + "x": false, id[:8]: false, "a" + id: false, strings.ToUpper(id): strings.ToUpper(id) == id, id + ";b": false,
	} {
		tt.secret("m", "dataplane-token-revocations-m", []byte(list))
		err := tt.authenticate("m.web", token)
		if fault.Is(err, fault.Denied) != revoked || !revoked && err != nil {
			t.Errorf("list %q: %v", list, err)
		}
		if err := tt.CheckProxy(t.Context(), token, "m", "web", nil); fault.Is(err, fault.Denied) != revoked {
			t.Errorf("CheckProxy, list %q: %v", list, err)
		}
	}
	tt.secret("other", "dataplane-token-revocations-other", []byte(id))
	storetest.Place(t, tt.store, mesh.Secrets, "m", "dataplane-token-revocations-m", nil)
	if err := tt.authenticate("m.web", token); err != nil {
		t.Errorf("with the list deleted: %v", err)
	}
}

func TestCheckProxy(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "new", Tags: map[string][]string{mesh.TagService: {"web"}}})
	with := func(service string) *mesh.Dataplane {
		return &mesh.Dataplane{Networking: &mesh.Networking{Inbound: []mesh.Inbound{{Tags: mesh.Tags{mesh.TagService: service}}}}}
	}
	for _, test := range []struct {
		mesh, name string
		d          *mesh.Dataplane
		want       fault.Code
	}{
		{"m", "new", nil, ""},
		{"m", "new", with("web"), ""},
		{"m", "new", with("db"), fault.Forbidden},
		{"m", "new", &mesh.Dataplane{}, fault.Forbidden},
		{"m", "web", nil, fault.Forbidden},
		{"other", "new", nil, fault.Forbidden},
	} {
		if err := tt.CheckProxy(t.Context(), token, test.mesh, test.name, test.d); fault.CodeOf(err) != test.want {
			t.Errorf("%s.%s %v: %v, want %q", test.mesh, test.name, test.d, err, test.want)
		}
	}
	if err := tt.CheckProxy(t.Context(), "x", "m", "new", nil); !fault.Is(err, fault.Denied) {
		t.Error(err)
	}
}

// TestDataplaneTokenOfDeletedMesh removes a mesh with everything in it.
func TestDataplaneTokenOfDeletedMesh(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	for _, name := range []string{"web", "gw.v1"} {
		storetest.Place(t, tt.store, mesh.Dataplanes, "m", name, nil)
	}
	tt.removeKey("m", "1")
	storetest.Place(t, tt.store, mesh.Meshes, "", "m", nil)
	if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Denied) {
		t.Error(err)
	}
	if _, err := tt.Issue(t.Context(), DataplaneTokenRequest{Mesh: "m"}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// TestDataplaneTokenWithoutStore: a failure of the store is not blamed on the token.
func TestDataplaneTokenWithoutStore(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	_ = tt.store.Close()
	if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

// TestDataplaneTokensConcurrently authenticates while keys come and go.
func TestDataplaneTokensConcurrently(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web"})
	other := tt.issue(DataplaneTokenRequest{Mesh: "other"})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if err := tt.authenticate("m.web", token); err != nil {
					t.Error(err)
				}
				if err := tt.authenticate("m.web", other); !fault.Is(err, fault.Forbidden) {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		tt.key("m", "2", pkcs1(signingKeys()[1+i%2]))
		if got := serial(t, tt.issue(DataplaneTokenRequest{Mesh: "m"})); got != "2" {
			t.Errorf("kid %v", got)
		}
		tt.removeKey("m", "2")
	}
	wg.Wait()
}

// FuzzDataplaneToken: every token except the good ones is refused with a fault that blames
// the right party.
func FuzzDataplaneToken(f *testing.F) {
	tt := newTokenTest(f)
	key := signingKeys()[0]
	good := map[string]bool{}
	for _, name := range []string{"", "web"} {
		token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: name})
		good[token[:strings.LastIndex(token, ".")]] = true
		f.Add("m.web", token)
		f.Add("m.nope", token)
		f.Add("other.web", "Bearer "+token)
	}
	for _, kid := range []any{1, 1.5, nil, true, "01", "../x", "", []int{1}, map[string]any{"kid": "1"}, "1\x00"} {
		f.Add("m.web", sign(f, jwt.SigningMethodRS256, kid, key, dataplaneClaims()))
	}
	for _, c := range []jwt.MapClaims{dataplaneClaims("Mesh", "../m"), dataplaneClaims("exp", 1e300), dataplaneClaims("Tags", 1), dataplaneClaims("jti", nil)} {
		f.Add("m.web", sign(f, jwt.SigningMethodRS256, "1", key, c))
	}
	f.Add("m.web", sign(f, jwt.SigningMethodHS256, "1", []byte("x"), dataplaneClaims()))
	f.Add("", "")
	f.Add(".", "..")
	f.Fuzz(func(t *testing.T, node, token string) {
		until, err := tt.Authenticate(t.Context(), node, token)
		switch fault.CodeOf(err) {
		case "":
			signed := strings.TrimPrefix(token, "Bearer ")
			if node != "m.web" || !good[signed[:strings.LastIndex(signed, ".")]] || until.IsZero() {
				t.Errorf("node %q with token %q until %s", node, token, until)
			}
		case fault.Denied, fault.Forbidden, fault.NotFound:
		default:
			t.Errorf("node %q with token %q: %v", node, token, err)
		}
	})
}

func BenchmarkDataplaneTokenAuthenticate(b *testing.B) {
	tt := newTokenTest(b)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", Tags: map[string][]string{"team": {"a"}}})
	tt.secret("m", "dataplane-token-revocations-m", []byte(strings.Repeat("0b1bd32e-8ef7-4c7a-a0a4-6f2e2b2d4c11,", 100)))
	b.ReportAllocs()
	for b.Loop() {
		if err := tt.authenticate("m.web", token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDataplaneTokenIssue(b *testing.B) {
	tt := newTokenTest(b)
	b.ReportAllocs()
	for b.Loop() {
		tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web"})
	}
}
