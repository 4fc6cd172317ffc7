package gateway

import (
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// KeyAuthConfig is the configuration of a key-auth plugin.
// Source: requirement "Authentication".
type KeyAuthConfig struct {
	KeyNames        []string `json:"key_names" jsonschema:"default=apikey,minItems=1,maxLength=128" jsonschema_extras:"x-check=key-names,x-each-check=header-name"`
	KeyInHeader     bool     `json:"key_in_header" jsonschema:"default=true"`
	KeyInQuery      bool     `json:"key_in_query" jsonschema:"default=true"`
	KeyInBody       bool     `json:"key_in_body" jsonschema:"default=false"`
	HideCredentials bool     `json:"hide_credentials" jsonschema:"default=false"`
	RunOnPreflight  bool     `json:"run_on_preflight" jsonschema:"default=true"`
	Anonymous       string   `json:"anonymous,omitempty" jsonschema:"maxLength=512"`
	Realm           string   `json:"realm,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=realm"`
}

// keyAuthSchema describes the configuration of a key-auth plugin.
// Source: requirement "Authentication".
var keyAuthSchema = &model.Schema{
	Fields: rules.With(model.Rules{
		Checks: map[string]func(any) string{
			"key-names": fewNames,
		},
	}).Fields(KeyAuthConfig{}),
	Checks: []model.Check{
		{Fields: []string{"key_in_header", "key_in_query", "key_in_body"}, Run: someKeyPlace},
		{Fields: []string{"key_names", "key_in_header"}, Run: keyHeaders},
	},
}

// fewNames bounds the work of a request. It also refuses names that differ only in case,
// because names of headers ignore case.
func fewNames(v any) string {
	names := texts(v)
	if len(names) > contract.MaxCredentialNames {
		return "length must be at most 8"
	}
	seen := map[string]bool{}
	for _, n := range names {
		if seen[strings.ToLower(n)] {
			return "must not repeat a name"
		}
		seen[strings.ToLower(n)] = true
	}
	return ""
}

// keyHeaders refuses names of headers that cannot hold a key. In queries and bodies these
// names are allowed.
func keyHeaders(w *model.Write) (out []fault.Violation) {
	if w.New["key_in_header"] != true {
		return nil
	}
	for i, name := range texts(w.New["key_names"]) {
		if text := credentialHeaderText(name); text != "" {
			out = append(out, violation("key_names."+strconv.Itoa(i+1), text)...)
		}
	}
	return out
}

func someKeyPlace(w *model.Write) []fault.Violation {
	for _, name := range []string{"key_in_header", "key_in_query", "key_in_body"} {
		if w.New[name] == true {
			return nil
		}
	}
	return entityViolation("at least one of these fields must be true: key_in_header, key_in_query, key_in_body")
}
