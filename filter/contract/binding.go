package contract

// GoodFor reports whether a token is good at a plugin on the route of a service. A token
// that is bound to a service is good only there. A token that is bound to none is good if
// the plugin has global credentials. The filter and introspection share this rule, so that a
// resource server learns what the gateway would do.
func GoodFor(bound []byte, service string, global bool) bool {
	if len(bound) == 0 {
		return global
	}
	return string(bound) == service
}
