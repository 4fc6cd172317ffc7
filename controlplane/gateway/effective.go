package gateway

// Attachment is the place where a plugin instance is attached. Without ids it is global. The
// combination of name, route and service is unique among the instances without a consumer.
type Attachment struct{ Name, Route, Service string }

// AttachmentOf returns the place where a plugin is attached. ok is false for instances bound
// to a consumer: they are not selected by route and service alone, and share their place with
// other instances.
func AttachmentOf(p *Plugin) (t Attachment, ok bool) {
	return Attachment{p.Name, p.Route, p.Service}, p.Consumer == ""
}

// PluginOrder lists the plugins in the order in which they run: by descending priority (1400,
// 1250, 2).
var PluginOrder = []string{PluginOAuth2, PluginKeyAuth, PluginRequestTermination}

// Effective finds the one instance of a plugin that runs on a route. It is the most specific
// of (route and service), route, service, global. find returns the enabled instance at a
// place. A disabled instance does not run, and so it does not hide a less specific one.
// service is empty on a route without a service.
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
