package contract

// GoodFor reports whether a token that is bound to a service, or to none, is good
// at a plugin on the route of a service. One that is bound is good at its service
// alone, and one that is not where the plugin has global credentials. The filter
// decides by it, and introspection answers by it, so that a resource server learns
// what the gateway would do.
func GoodFor(bound []byte, service string, global bool) bool {
	if len(bound) == 0 {
		return global
	}
	return string(bound) == service
}
