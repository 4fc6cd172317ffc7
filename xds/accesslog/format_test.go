package accesslog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// A format may show everything known about a request, except parts that may contain a
// credential.
func TestFormatsShowNoCredential(t *testing.T) {
	if _, err := Parse(Default); err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{
		"%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%", "%REQ(X-TENANT):20%", "%REQ(X-TENANT?USER-AGENT)%", "100%%", "%RESP(CONTENT-TYPE)%",
		"%MESHGATE(consumer)% at %MESHGATE(service)%", "%REQ(:AUTHORITY)%", "%DURATION%", "",
	} {
		if _, err := Parse(fmt.Sprintf(`{"a":{"b":%q}}`, good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"%REQ(AUTHORIZATION)%", "%REQ(Proxy-Authorization)%", "%REQ(APIKEY)%", "%REQ(X_API_KEY)%", "%REQ(COOKIE)%", "%RESP(SET-COOKIE)%",
		"%REQ(:PATH)%", "%REQ(X-A?:PATH)%", "%REQ(X-A?AUTHORIZATION):10%", "%REQ(X-ENVOY-ORIGINAL-URL)%", "%RESP(LOCATION)%", "%REQ(REFERER)%",
		"%REQ(X-CONSUMER-USERNAME)%", "%REQ(X_Consumer-Id)%", "%REQ(X-MESHGATE-OAUTH)%", "%PATH(WQ:PATH)%", "%QUERY_PARAM(access_token)%",
		"%QUERY_PARAMS(ORIG)%", "%REQ_WITHOUT_QUERY(AUTHORIZATION)%", "%ENVIRONMENT(HOME)%", "%DYNAMIC_METADATA(a:b)%", "%FILTER_STATE(a)%",
		"%CEL(request.headers)%", "%FILE_CONTENT(/etc/passwd)%", "%SECRET(a)%", "%MESHGATE(token)%", "%MESHGATE%", "%REQ()%", "%REQ(A?B?C)%",
		"100%", "%nothing%", "%DURATION", "%START_TIME(\n)%", "%DURATION(x)%", "%REQ(A B)%",
		// Envoy stores the whole path of a request that it rewrites here, and proxies in front
		// of it may send one.
		"%REQ(X-ENVOY-ORIGINAL-PATH)%", "%REQ(X-FORWARDED-PATH)%", "%REQ(X_ENVOY_ORIGINAL_PATH)%", "%RESP(REFRESH)%", "%RESP(X-ACCEL-REDIRECT)%",
		"%REQ(SEC-WEBSOCKET-PROTOCOL)%", "%REQ(DPOP)%",
		// Envoy refuses these, and the whole listener with them.
		"%DURATION:10%", "%START_TIME(%s):10%",
	} {
		if _, err := Parse(fmt.Sprintf(`{"a":{"b":%q}}`, bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	for _, bad := range []string{"", "[]", `"x"`, "{}", `{"a":1}`, `{"a":{}}`, `{"a":"x"}{}`, `{"a":"x"}}`, `{"a":"x"}]`, `{"a":["%DURATION%"]}`, strings.Repeat(`{"a":`, maxDepth+1) + `"x"` + strings.Repeat(`}`, maxDepth+1), `{"a":"` + strings.Repeat("x", maxFormat) + `"}`} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%.40s was taken", bad)
		}
	}
}

// Our own operators are read from the place of each ending; other operators stay.
func TestFormatIsToldEnvoy(t *testing.T) {
	f, err := Parse(`{"a":"%MESHGATE(consumer)% %DURATION%","b":{"c":"%MESHGATE(reason)%","d":"%MESHGATE(consumer):20% %MESHGATE(route):7%"}}`)
	if err != nil {
		t.Fatal(err)
	}
	for e, want := range map[ending]map[string]any{
		passed: {"a": "%REQ(x-consumer-username):256% %DURATION%", "b": map[string]any{"c": "%METADATA(ROUTE:meshgate:reason)%", "d": "%REQ(x-consumer-username):20% %METADATA(ROUTE:meshgate:route):7%"}},
		ended:  {"a": "%DYNAMIC_METADATA(meshgate:consumer)% %DURATION%", "b": map[string]any{"c": "%DYNAMIC_METADATA(meshgate:reason)%", "d": "%DYNAMIC_METADATA(meshgate:consumer):20% %METADATA(ROUTE:meshgate:route):7%"}},
		issued: {"a": "%DYNAMIC_METADATA(meshgate:nothing)% %DURATION%", "b": map[string]any{"c": "%DYNAMIC_METADATA(meshgate:nothing)%", "d": "%DYNAMIC_METADATA(meshgate:nothing):20% %DYNAMIC_METADATA(meshgate:route):7%"}},
	} {
		if d := cmp.Diff(want, f.fieldsOf(e, contract.ModeModule)); d != "" {
			t.Errorf("ending %d (-want +got):\n%s", e, d)
		}
	}
}

// What an authorization service records is under the name of Envoy's filter, and of a request
// of which it recorded nothing an expression says what became of it.
func TestFormatOfAnAuthorizationService(t *testing.T) {
	f, err := Parse(`{"a":"%MESHGATE(consumer)%","b":"%MESHGATE(reason):9%","c":"%MESHGATE(route)%"}`)
	if err != nil {
		t.Fatal(err)
	}
	for e, want := range map[ending]map[string]any{
		passed: {"a": "%REQ(x-consumer-username):256%", "b": strings.TrimSuffix(authzWords["reason"], "%") + ":9%", "c": "%METADATA(ROUTE:meshgate:route)%"},
		ended:  {"a": "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:consumer)%", "b": "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:reason):9%", "c": "%METADATA(ROUTE:meshgate:route)%"},
		issued: {"a": "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:nothing)%", "b": "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:nothing):9%", "c": "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:route)%"},
	} {
		if d := cmp.Diff(want, f.fieldsOf(e, contract.ModeExtAuthz)); d != "" {
			t.Errorf("ending %d (-want +got):\n%s", e, d)
		}
	}
}

// Parsing ends for every format, and an accepted format contains no operator that reads a
// secret header.
func FuzzParse(f *testing.F) {
	for _, s := range []string{Default, `{"a":"%REQ(AUTHORIZATION)%"}`, `{"a":"%%REQ(COOKIE)%%"}`, `{"a":"%%%REQ(COOKIE)%"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		format, err := Parse(text)
		if err != nil {
			return
		}
		for e := range numEndings {
			for _, v := range leaves(format.fieldsOf(e, contract.ModeModule)) {
				// Envoy reads doubled percent signs as literal ones.
				v = strings.ToLower(strings.ReplaceAll(v, "%%", ""))
				if i := slices.IndexFunc([]string{"%req(authorization", "%req(cookie", "%req(:path"}, func(s string) bool { return strings.Contains(v, s) }); i >= 0 {
					t.Errorf("%q shows a credential", v)
				}
			}
		}
	})
}

func leaves(fields map[string]any) (out []string) {
	for _, v := range fields {
		if inner, ok := v.(map[string]any); ok {
			out = append(out, leaves(inner)...)
			continue
		}
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}

// Every listener asks for the format, but it is parsed again only when it has changed.
func TestFormatIsReadOnce(t *testing.T) {
	read := func(s Settings) *Format {
		t.Helper()
		f, err := s.format()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := read(Settings{})
	if read(Settings{Drop: 1}) != first {
		t.Error("the same format was read again")
	}
	other := read(Settings{Format: `{"a":"%DURATION%"}`})
	if diff := cmp.Diff(map[string]any{"a": "%DURATION%"}, other.fieldsOf(passed, contract.ModeModule)); diff != "" {
		t.Error("another format (-want +got):", diff)
	}
	if _, err := (Settings{Format: `{"a":"%PATH%"}`}).format(); err == nil {
		t.Error("a format that shows paths was taken")
	}
	if diff := cmp.Diff(first.fieldsOf(ended, contract.ModeModule), read(Settings{}).fieldsOf(ended, contract.ModeModule)); diff != "" {
		t.Error("the first format again (-want +got):", diff)
	}
}
