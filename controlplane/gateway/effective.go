package gateway

// Attachment is where a plugin instance is attached: empty ids make it global.
// (name, route, service) is unique among the instances without a consumer.
type Attachment struct{ Name, Route, Service string }

// AttachmentOf returns where a plugin is attached. ok is false for instances bound
// to a consumer: those are not selected by route and service alone, and share
// the target with others.
func AttachmentOf(p *Plugin) (t Attachment, ok bool) {
	return Attachment{p.Name, p.Route, p.Service}, p.Consumer == ""
}

// PluginOrder lists the plugins that can run, in the order in which they run:
// descending priority (1400, 1250, 2).
var PluginOrder = []string{PluginOAuth2, PluginKeyAuth, PluginRequestTermination}

// Effective finds the one instance of a plugin that runs on a route: the most
// specific of (route and service), route, service, global. find returns the
// enabled instance at a target; a disabled one is not executed and therefore
// hides no less specific one. service is empty on a route without a service.
func Effective[T any](name, route, service string, find func(Attachment) (T, bool)) (T, bool) {
	targets := [...]Attachment{{name, route, service}, {name, route, ""}, {name, "", service}, {Name: name}}
	for _, t := range targets {
		if p, ok := find(t); ok {
			return p, true
		}
	}
	var none T
	return none, false
}
