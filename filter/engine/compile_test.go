package engine_test

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

func TestCompileRefuses(t *testing.T) {
	oauth2 := func(o contract.OAuth2) []contract.Plugin { return []contract.Plugin{{ID: "p", OAuth2: &o}} }
	auth := contract.OAuth2{Header: "authorization"}
	key := contract.KeyAuth{Names: []string{"k"}, InHeader: true}
	keys := func(k contract.KeyAuth) []contract.Plugin { return []contract.Plugin{{ID: "k", KeyAuth: &k}} }
	ends := func(a contract.Answered) []contract.Plugin {
		return []contract.Plugin{{ID: "t", Termination: &contract.Termination{Default: &a}}}
	}
	anonymous := func(a contract.Anonymous) []contract.Plugin {
		return oauth2(contract.OAuth2{Header: "authorization", Anonymous: &a})
	}
	for name, tc := range map[string]struct {
		chain *contract.Chain
		cause string
	}{
		"nil":                 {nil, "no plugins"},
		"no plugins":          {&contract.Chain{}, "no plugins"},
		"plugin without kind": {&contract.Chain{Plugins: []contract.Plugin{{ID: "p"}}}, "plugins[0]: no known plugin"},
		"two of a kind":       {&contract.Chain{Plugins: append(oauth2(auth), oauth2(auth)...)}, "plugins[1]: a chain has one"},
		"service":             {&contract.Chain{Service: "a\nb", Plugins: oauth2(auth)}, "service id"},
		"plugin id":           {&contract.Chain{Plugins: []contract.Plugin{{ID: "a\rb", OAuth2: &auth}}}, "plugin id"},
		"no plugin id":        {&contract.Chain{Plugins: []contract.Plugin{{OAuth2: &auth}}}, "plugin id"},
		"no header":           {&contract.Chain{Plugins: oauth2(contract.OAuth2{})}, "header name"},
		"upper-case header":   {&contract.Chain{Plugins: oauth2(contract.OAuth2{Header: "Authorization"})}, "header name"},
		"pseudo header":       {&contract.Chain{Plugins: oauth2(contract.OAuth2{Header: ":authority"})}, "header name"},
		"identity header":     {&contract.Chain{Plugins: oauth2(contract.OAuth2{Header: "x-consumer-id"})}, "reserved"},
		"identity twin":       {&contract.Chain{Plugins: oauth2(contract.OAuth2{Header: "x_consumer-id"})}, "reserved"},
		"two key-auths":       {&contract.Chain{Plugins: append(keys(key), keys(key)...)}, "plugins[1]: a chain has one"},
		"key name":            {&contract.Chain{Plugins: keys(contract.KeyAuth{Names: []string{"a b"}, InHeader: true})}, "header name"},
		"key name is ours":    {&contract.Chain{Plugins: keys(contract.KeyAuth{Names: []string{"x-meshgate-oauth"}, InQuery: true})}, "reserved"},
		"pseudo key":          {&contract.Chain{Plugins: keys(contract.KeyAuth{Names: []string{":method"}, InHeader: true})}, "header name"},
		"key without id":      {&contract.Chain{Plugins: []contract.Plugin{{KeyAuth: &key}}}, "plugin id"},
		"too many names":      {&contract.Chain{Plugins: keys(contract.KeyAuth{Names: strings.Split("abcdefghijklmno", ""), InHeader: true})}, "too many"},
		"behind termination":  {&contract.Chain{Plugins: append(ends(contract.Answered{Status: 503}), keys(key)...)}, "nothing runs behind"},
		"bad content type":    {&contract.Chain{Plugins: ends(contract.Answered{Status: 503, ContentType: "a\nb"})}, "content_type"},
		"bad trigger":         {&contract.Chain{Plugins: ends(contract.Answered{Status: 503, Trigger: "a b"})}, "header name"},
		"key anonymous no id": {&contract.Chain{Plugins: keys(contract.KeyAuth{Names: []string{"k"}, Anonymous: &contract.Anonymous{Consumer: &contract.Consumer{}}})}, "key_auth.anonymous"},
		"anonymous without id": {&contract.Chain{Plugins: anonymous(contract.Anonymous{Configured: "a", Consumer: &contract.Consumer{}})},
			"consumer has no id"},
		"anonymous too long": {&contract.Chain{Plugins: anonymous(contract.Anonymous{Configured: "a",
			Consumer: &contract.Consumer{ID: "a", Username: strings.Repeat("u", engine.BufferSize)}})}, "exceeds"},
	} {
		p, err := engine.Compile(tc.chain)
		if p != nil || err == nil || !strings.Contains(err.Error(), tc.cause) {
			t.Errorf("%s: got %v, %v, want an error with %q", name, p, err, tc.cause)
		}
	}
}

func TestBrokenRefusesEverything(t *testing.T) {
	p := engine.Broken("secret cause")
	if p.Fault() != "secret cause" || len(p.Headers()) != 0 {
		t.Errorf("fault %q, headers %q", p.Fault(), p.Headers())
	}
	for _, path := range []string{"", "/", "/oauth2/token"} {
		v := p.Decide(shown(path, ""), lying{}, nil)
		if v.Action != engine.Refuse || v.Refusal.Status != 503 || v.Refusal.Reason != contract.ReasonChainBroken {
			t.Errorf("path %q: %+v", path, v)
		}
		if strings.Contains(v.Refusal.Body, "secret") {
			t.Errorf("the client learns the cause: %s", v.Refusal.Body)
		}
	}
}

func TestHeaderAndFaultOfGoodProgram(t *testing.T) {
	p, err := engine.Compile(&contract.Chain{Plugins: []contract.Plugin{{ID: "p", OAuth2: &contract.OAuth2{Header: "x-token"}}}})
	if err != nil || p.Early() != 1 || p.Headers()[0] != "x-token" || p.Fault() != "" {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestHandOver(t *testing.T) {
	for _, tc := range []struct{ scheme, client, wantScheme, wantClient string }{
		{"https", "192.0.2.1", "https", "192.0.2.1"},
		{"http", "192.0.2.1:80", "http", "192.0.2.1"},
		{"HTTPS", "[2001:db8::1]:80", "http", "2001:db8::1"},
		{"", "2001:db8::1", "http", "2001:db8::1"},
		{"ftp", "@unix", "http", ""},
		{"https", "", "https", ""},
		{"https", "192.0.2.1, 192.0.2.2", "https", ""},
		{"https", "fe80::1%eth0", "https", ""},
		{"https", "[fe80::1%eth0]:80", "https", ""},
	} {
		p, err := engine.Compile(&contract.Chain{Service: "s", Issues: true, Plugins: []contract.Plugin{{ID: "p", OAuth2: &contract.OAuth2{Header: "h"}}}})
		if err != nil {
			t.Fatal(err)
		}
		v := p.Decide(shown("/oauth2/token", ""), lying{}, make([]byte, engine.BufferSize))
		want := [4]engine.HeaderEdit{
			{Name: "x-meshgate-oauth", Value: "p"}, {Name: "x-meshgate-service", Value: "s"},
			{Name: "x-meshgate-scheme", Value: tc.wantScheme}, {Name: "x-meshgate-client", Value: tc.wantClient},
		}
		if got := p.HandOver(&v, tc.scheme, tc.client); got != want {
			t.Errorf("scheme %q, client %q: got %v, want %v", tc.scheme, tc.client, got, want)
		}
	}
}

// TestReservedNamesCarryNoCredential: gateways remove or set reserved headers. A plugin that
// read one would never find a credential, or would find a value that a gateway has set.
func TestReservedNamesCarryNoCredential(t *testing.T) {
	for _, name := range []string{"x-consumer-id", "x_consumer-groups", "x-credential-token", "x_authenticated_x", "x-meshgate-x", "x-envoy-x", "x_forwarded_for"} {
		if _, err := engine.Compile(&contract.Chain{Plugins: []contract.Plugin{{ID: "p", OAuth2: &contract.OAuth2{Header: name}}}}); err == nil {
			t.Errorf("a token is looked for in %s", name)
		}
	}
}

// TestUnavailableIsTheEnginesOwn: a look-up that an adapter gave up must look to the client
// like one that the cache gave up.
func TestUnavailableIsTheEnginesOwn(t *testing.T) {
	c, _ := fuzzChain("s", "u", 1|16|32)
	v := compile(c).Decide(shown("/", "x"),
		lying{answer: contract.Unavailable}, make([]byte, engine.BufferSize))
	if v.Refusal != engine.Unavailable() {
		t.Errorf("got %+v, want %+v", v.Refusal, engine.Unavailable())
	}
}
