package contract

// GoodFor reports whether a token is good at a plugin on the route of a service. A token
// that is bound to a service is good only there. A token that is bound to none is good if
// the plugin has global credentials. The filter and introspection share this rule, so that a
// resource server learns what the gateway would do.
//
// bound is an id, or what [BoundTo] made of it. Two members of a group may have services of
// one id, so there plane is the control plane of the service; otherwise it is empty. Whoever
// names no control plane has compared it, or has one only.
func GoodFor(bound []byte, service, plane string, global bool) bool {
	if len(bound) == 0 {
		return global
	}
	if len(bound) <= len(service) {
		return string(bound) == service
	}
	id, of := bound[:len(service)], bound[len(service):]
	return string(id) == service && of[0] == ofPlane && (plane == "" || string(of[1:]) == plane)
}

// ofPlane separates the id of a service from its control plane. No id has it.
const ofPlane = '@'

// BoundTo names a service by its id and its control plane.
func BoundTo(service, plane string) string { return service + string(ofPlane) + plane }
