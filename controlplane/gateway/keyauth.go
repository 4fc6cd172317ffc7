package gateway

import (
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// keySchema describes API keys. ttl is in seconds.
var keySchema = &model.Schema{
	Key: "key", KeyIndex: KeyAuthKey, CreatedUnit: time.Second, Settle: settleKey,
	Present: func(r *model.Resource, out map[string]any, now time.Time) {
		out["ttl"] = remaining(r.Spec.(*Key).DropAt, now)
	},
	Fields: append(model.Identity(time.Second, false),
		model.Field{Name: "consumer", Type: model.Foreign, To: "consumer", By: IndexUsername, Required: true},
		// As with tokens, a value that the caller chose may have been presented before.
		model.Field{Name: "key", Type: model.String, Required: true, Auto: generated, MaxLen: maxToken, Check: headerText, Announce: true},
		model.Field{Name: "ttl", Type: model.Integer, Meta: true, Between: &[2]int64{1, 100000000}},
		tags(),
		model.Field{Name: "drop_at", Type: model.Integer, Hidden: true, Keep: true},
	),
}

func settleKey(w *model.Write, now time.Time) error {
	settleTTL(w, now)
	return nil
}

// keyAuthSchema describes the configuration of a key-auth plugin.
// Source: requirement "Authentication".
var keyAuthSchema = &model.Schema{
	Fields: []model.Field{
		{
			Name: "key_names", Type: model.Array, Required: true, Default: []any{"apikey"}, MinElements: 1, Check: fewNames,
			Elem: &model.Field{Type: model.String, MaxLen: 128, Check: headerNameText},
		},
		enabledFlag("key_in_header"), enabledFlag("key_in_query"), flag("key_in_body"),
		flag("hide_credentials"),
		enabledFlag("run_on_preflight"),
		{Name: "anonymous", Type: model.String, MaxLen: MaxIdentity},
		{Name: "realm", Type: model.String, MaxLen: maxRealm, Check: realmText},
	},
	Checks: []model.Check{
		{Fields: []string{"key_in_header", "key_in_query", "key_in_body"}, Run: someKeyPlace},
		{Fields: []string{"key_names", "key_in_header"}, Run: keyHeaders},
	},
}

func enabledFlag(name string) model.Field {
	return model.Field{Name: name, Type: model.Boolean, Required: true, Default: true}
}

// fewNames bounds the work of a request, and keeps names apart that differ in
// nothing but case, as names of headers do not.
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

// keyHeaders refuses names of headers in which no key can be; in queries and
// bodies they are names like others.
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
