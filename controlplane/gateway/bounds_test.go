package gateway

import "testing"

// TestIdentitiesAreBounded: the tags of values that filters put into headers have the limits
// that the rest of the program relies on.
func TestIdentitiesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ got, want int }{
		"username":                      {Consumers.Schema.Field("username").MaxLen, MaxIdentity},
		"custom_id":                     {Consumers.Schema.Field("custom_id").MaxLen, MaxIdentity},
		"client_id":                     {Applications.Schema.Field("client_id").MaxLen, MaxIdentity},
		"scopes of an application":      {Applications.Schema.Field("scopes").Elem.MaxLen, MaxScope},
		"authenticated_userid":          {Tokens.Schema.Field("authenticated_userid").MaxLen, MaxIdentity},
		"scope of a token":              {Tokens.Schema.Field("scope").MaxLen, MaxScope},
		"scopes of a plugin":            {oauth2Schema.Field("scopes").Elem.MaxLen, MaxScope},
		"paths of routes":               {Routes.Schema.Field("paths").Elem.MaxLen, maxPattern + 1},
		"values of headers in a route":  {Routes.Schema.Field("headers").Elem.Elem.MaxLen, maxPattern + 2},
		"identity of an anonymous user": {oauth2Schema.Field("anonymous").MaxLen, MaxIdentity},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d bytes, not %d", name, c.got, c.want)
		}
	}
}
