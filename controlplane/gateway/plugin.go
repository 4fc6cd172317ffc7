package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Plugin applies a behaviour globally (without Route and Service), to a service, to a route
// or to both. References are ids.
type Plugin struct {
	Name         string `json:"name" jsonschema:"maxLength=128" jsonschema_extras:"x-check=plugin"`
	InstanceName string `json:"instance_name,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-unique=true,x-check=name"`
	Route        string `json:"route,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=route"`
	Service      string `json:"service,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=service"`
	Consumer     string `json:"consumer,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=consumer,x-by=username"`
	// Config is the validated, completed configuration of the plugin; for
	// oauth2 it decodes into [OAuth2Config].
	Config    json.RawMessage `json:"config" jsonschema_extras:"x-variant=plugin"`
	Protocols []string        `json:"protocols" jsonschema:"uniqueItems=true,minItems=1,default=grpc,default=grpcs,default=http,default=https,enum=grpc,enum=grpcs,enum=http,enum=https,enum=ws,enum=wss"`
	Enabled   bool            `json:"enabled" jsonschema:"default=true"`
	Tags      []string        `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Plugins is the kind of plugin instances. The name of an instance determines the schema of
// its config.
var Plugins = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"plugin": pluginNameText,
	},
	Variants: map[string]func(map[string]any) *model.Schema{"plugin": pluginConfig},
}).Describe(Plugin{}, model.Kind{
	Name: "plugin", Path: "plugins", Scoping: model.ControlPlane, Class: model.Config, Sealed: true,
	Secrets: []string{"/config/provision_key"},
	Unique: []model.Index{{Name: IndexTarget, Value: func(spec any) (string, bool) {
		p := spec.(*Plugin)
		return p.Name + " " + p.Route + " " + p.Service + " " + p.Consumer, true
	}}},
	Lists: []model.ListIndex{listed(IndexAnonymous, func(p *Plugin) []string { return one(p.AnonymousConsumer()) })},
	Schema: &model.Schema{
		Key: "instance_name", CreatedUnit: time.Second, Updated: true, Cross: pluginMeetsRoute, Settle: settleAnonymous,
		Checks: []model.Check{{Fields: []string{"name", "consumer"}, Run: pluginConsumer}},
	},
})

// pluginType is one plugin that instances can be made of.
type pluginType struct {
	name   string
	config *model.Schema
	// consumer is set if an instance may be bound to a consumer.
	consumer bool
}

// pluginTypes lists all plugins. A new plugin needs an entry here.
var pluginTypes = []pluginType{
	{name: PluginOAuth2, config: oauth2Schema},
	{name: PluginKeyAuth, config: keyAuthSchema},
	{name: PluginRequestTermination, config: terminationSchema, consumer: true},
}

// PluginNames lists the plugins that instances can be made of.
func PluginNames() []string {
	names := make([]string, len(pluginTypes))
	for i, t := range pluginTypes {
		names[i] = t.name
	}
	return names
}

func pluginTypeOf(entity map[string]any) *pluginType {
	for i := range pluginTypes {
		if pluginTypes[i].name == entity["name"] {
			return &pluginTypes[i]
		}
	}
	return nil
}

// settleAnonymous stores the id of a consumer in lower case, in which ids are compared.
func settleAnonymous(w *model.Write, _ time.Time) error {
	config, _ := w.New["config"].(map[string]any)
	if id := given(config, "anonymous"); model.IsUUID(id) {
		config["anonymous"] = strings.ToLower(id)
	}
	return nil
}

// pluginConfig returns the schema of the configuration of the plugin that an instance names.
func pluginConfig(entity map[string]any) *model.Schema {
	if t := pluginTypeOf(entity); t != nil {
		return t.config
	}
	return nil
}

func pluginNameText(v any) string {
	if pluginTypeOf(map[string]any{"name": v}) == nil {
		return fmt.Sprintf("plugin '%s' not enabled; there are %s", v, strings.Join(PluginNames(), ", "))
	}
	return ""
}

func pluginConsumer(w *model.Write) []fault.Violation {
	if t := pluginTypeOf(w.New); t != nil && !t.consumer && w.New["consumer"] != nil {
		return violation("consumer", model.TextNull)
	}
	return nil
}

// pluginMeetsRoute refuses an instance that could never run on its route.
func pluginMeetsRoute(g model.Getter, r *model.Resource) ([]fault.Violation, error) {
	plugin := r.Spec.(*Plugin)
	if plugin.Route == "" {
		return nil, nil
	}
	route, err := g.Get(Routes, r.Scope, plugin.Route)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // the store reports the dangling reference
	}
	if err != nil {
		return nil, err
	}
	for _, p := range route.Spec.(*Route).Protocols {
		if slices.Contains(plugin.Protocols, p) {
			return nil, nil
		}
	}
	return violation("protocols", "must match the associated route's protocols"), nil
}

// TargetFields returns the fields behind a value of [IndexTarget], in the form in which
// entities show them.
func TargetFields(value string) map[string]any {
	parts := strings.Split(value, " ")
	fields := map[string]any{"name": parts[0], RefRoute: nil, RefService: nil, RefConsumer: nil}
	for i, name := range []string{RefRoute, RefService, RefConsumer} {
		if i+1 < len(parts) && parts[i+1] != "" {
			fields[name] = map[string]any{"id": parts[i+1]}
		}
	}
	return fields
}

// AnonymousConsumer returns the id or the username of the consumer for requests without
// credentials, or an empty text. It is empty if the configuration does not decode.
func (p *Plugin) AnonymousConsumer() string {
	var config struct {
		Anonymous string `json:"anonymous"`
	}
	if json.Unmarshal(p.Config, &config) != nil {
		return ""
	}
	if model.IsUUID(config.Anonymous) {
		return strings.ToLower(config.Anonymous)
	}
	return config.Anonymous
}

// The names of plugins.
const (
	PluginOAuth2             = "oauth2"
	PluginKeyAuth            = "key-auth"
	PluginRequestTermination = "request-termination"
)
