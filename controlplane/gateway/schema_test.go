package gateway

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return m
}

func violations(t testing.TB, err error) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err == nil {
		return out
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatalf("not a fault: %v", err)
	}
	for _, v := range e.Violations {
		out[v.Path] = v.Message
	}
	return out
}

const credential = `"credential":{"id":"00000000-0000-4000-8000-000000000000"}`

func TestViolations(t *testing.T) {
	long := strings.Repeat("x", MaxIdentity+1)
	for _, tc := range []struct {
		kind *model.Kind
		body string
		want map[string]string
	}{
		{Consumers, `{"username":"` + long + `"}`, map[string]string{"username": "length must be at most 512"}},
		{Consumers, `{"username":"a ","custom_id":"\u007f"}`, map[string]string{"username": "must not start or end with a blank", "custom_id": "must not contain control characters"}},
		{Consumers, `{"username":"Jürgen von der Höhe","tags":["a","a"]}`, map[string]string{}},
		{Consumers, `{"username":"a","tags":["a/b",""]}`, map[string]string{"tags.1": "must not contain ',', '/' or control characters", "tags.2": model.TextEmpty}},
		{Services, `{"host":"[::1]"}`, map[string]string{}},
		{Services, `{"host":"a b"}`, map[string]string{"host": `invalid hostname: "a b"`}},
		{Services, `{"url":"http://u:p@h/"}`, map[string]string{"url": "must hold only scheme, host, port and path"}},
		{Services, `{"url":1,"host":"h"}`, map[string]string{"url": "expected a string"}},
		{Services, `{"url":"ftp://h"}`, map[string]string{"protocol": "expected one of: http, https, grpc, grpcs, tcp, tls, tls_passthrough, udp, ws, wss"}},
		{Services, `{"host":"h","path":"/a?b"}`, map[string]string{"path": "must be percent-encoded and without query or fragment"}},
		{Services, `{"host":"h","path":"/a%2"}`, map[string]string{"path": "invalid percent-encoding"}},
		{Services, `{"host":"h","client_certificate":{"id":"x"},"ca_certificates":[]}`, map[string]string{"client_certificate.id": model.TextUUID, "ca_certificates": model.TextNull}},
		{Services, `{"host":"h","protocol":"https","tls_verify":true,"tls_verify_depth":3}`, map[string]string{}},
		{Services, `{"host":"h","write_timeout":0,"enabled":null}`, map[string]string{"write_timeout": "value should be between 1 and 2147483646", "enabled": model.TextRequired}},
		{Routes, `{"paths":["/a/../b"]}`, map[string]string{"paths.1": "must be normalized"}},
		{Routes, `{"hosts":["h:99999","h:80","-x"]}`, map[string]string{"hosts.1": `invalid port in "h:99999"`, "hosts.3": `invalid hostname: "-x"`}},
		{Routes, `{"hosts":[],"paths":[]}`, map[string]string{model.EntityPath: "must set one of 'methods', 'hosts', 'headers', 'paths', 'snis' when 'protocols' is 'https'"}},
		{Routes, `{"paths":["/"],"protocols":[]}`, map[string]string{"protocols": model.TextEmpty}},
		{Routes, `{"paths":["/"],"path_handling":"v2","strip_path":"yes","name":"a b"}`, map[string]string{"path_handling": "expected one of: v0, v1", "strip_path": "expected a boolean", "name": nameText("a b")}},
		{Routes, `{"paths":"/","methods":{}}`, map[string]string{"paths": "expected an array", "methods": "expected a set"}},
		{Plugins, `{"name":"oauth2","config":1}`, map[string]string{"config": "expected a record"}},
		{Plugins, `{"name":"oauth2","config":{"enable_implicit_grant":true,"scopes":["a b","","a,b"],"realm":"\"","auth_header_name":"a:b"}}`, map[string]string{
			"config.scopes.1": scopeText("a b"), "config.scopes.2": model.TextEmpty, "config.scopes.3": scopeText("a b"),
			"config.realm": "must not contain quotes or backslashes", "config.auth_header_name": "expected a header name",
		}},
		{Plugins, `{"name":"oauth2","config":{"enable_implicit_grant":true,"refresh_token_ttl":100000001,"token_expiration":"1"}}`, map[string]string{
			"config.refresh_token_ttl": "value should be between 0 and 100000000", "config.token_expiration": "expected a number",
		}},
		{Plugins, `{"name":"oauth2","protocols":["tcp"],"config":{"enable_implicit_grant":true}}`, map[string]string{"protocols.1": "expected one of: grpc, grpcs, http, https, ws, wss"}},
		{Tokens, `{` + credential + `,"expires_in":-1}`, map[string]string{"expires_in": "value should be between 0 and 2147483647"}},
		{Tokens, `{` + credential + `,"expires_in":1,"scope":"a\nb","authenticated_userid":"x\r","created_at":-1}`, map[string]string{
			"scope": "must not contain control characters", "authenticated_userid": "must not contain control characters",
			"created_at": "value should be between 0 and 253402300799000",
		}},
		{Tokens, `{"credential":{"id":"x","client_id":"y"},"expires_in":1e1}`, map[string]string{"credential.id": model.TextUUID}},
		{Tokens, `{"credential":"x","expires_in":1}`, map[string]string{"credential": "expected a record"}},
		{Tokens, `{"credential_id":null,"expires_in":1}`, map[string]string{"credential": model.TextRequired}},
	} {
		t.Run(tc.kind.Name+tc.body[:min(len(tc.body), 40)], func(t *testing.T) {
			_, err := tc.kind.Schema.Process(model.OpCreate, decode(t, tc.body), nil)
			if diff := cmp.Diff(tc.want, violations(t, err)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultsFillTheConfiguration(t *testing.T) {
	w, err := Plugins.Schema.Process(model.OpCreate, decode(t, `{"name":"oauth2","config":{"enable_client_credentials":true}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Plugins.Fill(w.New)
	if err != nil {
		t.Fatal(err)
	}
	var got OAuth2Config
	if err := json.Unmarshal(spec.(*Plugin).Config, &got); err != nil {
		t.Fatal(err)
	}
	want := OAuth2Config{
		EnableClientCredentials: true, TokenExpiration: 7200, RefreshTokenTTL: 1209600,
		AuthHeaderName: "authorization", PKCE: "lax", Profile: ProfileOAuth20, RefreshTokenGrace: 10,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(OAuth2Config{}, "ProvisionKey")); diff != "" {
		t.Error(diff)
	}
	if len(got.ProvisionKey) != RandomLength {
		t.Errorf("provision key %q", got.ProvisionKey)
	}
}

func TestURLShorthand(t *testing.T) {
	for text, want := range map[string]Service{
		"http://h":           {Protocol: "http", Host: "h", Port: 80},
		"http://h/":          {Protocol: "http", Host: "h", Port: 80, Path: "/"},
		"https://h/a%20b":    {Protocol: "https", Host: "h", Port: 443, Path: "/a%20b"},
		"https://h:8443/a/b": {Protocol: "https", Host: "h", Port: 8443, Path: "/a/b"},
		"http://[::1]:81":    {Protocol: "http", Host: "::1", Port: 81},
		"//h:443":            {Protocol: "https", Host: "h", Port: 443},
	} {
		w, err := Services.Schema.Process(model.OpCreate, map[string]any{"url": text}, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		spec, err := Services.Fill(w.New)
		if err != nil {
			t.Fatal(err)
		}
		got := spec.(*Service)
		want.Retries, want.ConnectTimeout, want.ReadTimeout, want.WriteTimeout, want.Enabled = 5, 60000, 60000, 60000, true
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestEverythingAdmittedCanBeServed: a record in which every header value has its maximum
// length can still be packed.
func TestEverythingAdmittedCanBeServed(t *testing.T) {
	id, text := strings.Repeat("0", 36), strings.Repeat("x", MaxIdentity)
	r := contract.Record{
		Version: contract.RecordVersion, Revision: 1, Service: id,
		Credential: contract.Credential{ID: id, ClientID: text},
		Consumer:   &contract.Consumer{ID: id, Username: text, CustomID: text},
		Scope:      strings.Repeat("s", MaxScope), UserID: text,
	}
	raw, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := contract.ParseRecord(raw); err != nil {
		t.Errorf("the largest admitted values do not pack: %v", err)
	}
}

func TestSecretHashVector(t *testing.T) {
	const want = "$pbkdf2-sha512$i=10000,l=32$YSBsaXR0ZSBiaXQsIGp1c3QgYSBsaXR0bGUgYml0$z6ysNworexAhDELywIDi0ba0B0T7F/MBZ6Ige9lWRYI"
	got, err := hashWith("tofu", []byte("a litte bit, just a little bit"), hashRounds, hashLength)
	if err != nil || got != want {
		t.Fatalf("hash %q, %v; want %q", got, err, want)
	}
	for given, ok := range map[string]bool{"tofu": true, "tofo": false, "": false, want: false} {
		if VerifySecret(want, given) != ok {
			t.Errorf("VerifySecret(%q) is not %t", given, ok)
		}
	}
	if !VerifySecret("plain", "plain") || VerifySecret("plain", "other") || VerifySecret("", "") {
		t.Error("plain secrets are compared wrongly")
	}
	for _, broken := range []string{
		"$pbkdf2-sha512$i=999999999,l=32$YQ$YQ", "$pbkdf2-sha512$i=1,l=0$YQ$", "$pbkdf2-sha512$i=1$YQ$YQ", "$pbkdf2-sha512$i=1,l=1$!$YQ", "$pbkdf2-sha512$",
	} {
		if hashed, _ := Hashed(broken); hashed {
			t.Errorf("%q passes as a hash", broken)
		}
	}
}

func TestHashOnWrite(t *testing.T) {
	old := decode(t, `{"consumer":{"id":"00000000-0000-4000-8000-000000000000"},"name":"a","client_id":"c","client_secret":"s","hash_secret":false,"redirect_uris":["http://a/"],"client_type":"confidential"}`)
	for _, tc := range []struct {
		patch    string
		hashed   bool
		coupling bool
	}{
		{`{"name":"b"}`, false, false},
		{`{"hash_secret":true}`, true, false},
		{`{"hash_secret":true,"client_secret":"n"}`, true, false},
		{`{"hash_secret":false,"client_secret":"n"}`, false, false},
		{`{"client_secret":"n"}`, false, true},
		{`{"hash_secret":false}`, false, true},
	} {
		w, err := Applications.Schema.Process(model.OpPatch, decode(t, tc.patch), old)
		if _, got := violations(t, err)[model.EntityPath]; got != tc.coupling {
			t.Errorf("%s: coupling violated = %t", tc.patch, got)
		}
		if err != nil {
			continue
		}
		if err := Applications.Schema.Settle(w, time.Now()); err != nil {
			t.Fatal(err)
		}
		secret := given(w.New, "client_secret")
		if hashed, current := Hashed(secret); hashed != tc.hashed || hashed != current {
			t.Errorf("%s: stored %q", tc.patch, secret)
		}
		if err := Applications.Schema.Settle(w, time.Now()); err != nil || given(w.New, "client_secret") != secret {
			t.Errorf("%s: writing it back changes the secret", tc.patch)
		}
	}
}

func TestRandomString(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9]{32}$`)
	seen := map[string]bool{}
	used := map[rune]bool{}
	for range 2000 {
		s := RandomString()
		if !form.MatchString(s) || seen[s] {
			t.Fatalf("%q is malformed or repeated", s)
		}
		seen[s] = true
		for _, r := range s {
			used[r] = true
		}
	}
	if len(used) != len(alphabet) {
		t.Errorf("only %d of %d characters occur", len(used), len(alphabet))
	}
}

func TestTokenSettles(t *testing.T) {
	now := time.UnixMilli(1_000_500)
	w, err := Tokens.Schema.Process(model.OpCreate, decode(t, `{`+credential+`,"expires_in":10,"scope":"a  b","ttl":60}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Tokens.Schema.Settle(w, now); err != nil {
		t.Fatal(err)
	}
	spec, err := Tokens.Fill(w.New)
	if err != nil {
		t.Fatal(err)
	}
	token := spec.(*Token)
	if token.Scope != "a b" || token.DropAt != 1_060_500 || token.TokenType != TokenBearer {
		t.Errorf("token %+v", token)
	}
	out, err := (&model.Resource{Kind: Tokens, Created: now, Spec: token}).Show(now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if out["ttl"] != int64(59) || out["created_at"] != int64(1_000_500) || out["credential_id"] != "00000000-0000-4000-8000-000000000000" {
		t.Errorf("shown as %v", out)
	}
	if _, shown := out["drop_at"]; shown {
		t.Error("a hidden field is shown")
	}
}
