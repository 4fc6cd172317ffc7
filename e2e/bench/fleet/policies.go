package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// installed is one resource of the mesh that -policies writes: for every proxy, from everybody
// to everybody.
type installed struct {
	kind, path, name string
	document         object
}

// everywhere is a policy with selectors.
func everywhere(kind, path string, conf object) installed {
	return installed{kind, path, "bench", object{"sources": selector("*"), "destinations": selector("*"), "conf": conf}}
}

// targeted is a policy with a target, which is the mesh.
func targeted(kind, path string, more object) installed {
	spec := object{"targetRef": object{"kind": "Mesh"}}
	for k, v := range more {
		spec[k] = v
	}
	return installed{kind, path, "bench", object{"spec": spec}}
}

// policies lists one of each kind beside those that every mesh has from the start, in the order
// in which they are written. MeshTokenAuth is missing: it needs a plugin of a gateway.
func policies() []installed {
	toAll := func(conf object) []object { return []object{{"targetRef": object{"kind": "Mesh"}, "default": conf}} }
	file := object{"backends": []object{{"type": "File", "file": object{"path": "bench.log"}}}}
	return []installed{
		everywhere("HealthCheck", "health-checks", object{"interval": "10s", "timeout": "2s", "unhealthyThreshold": 3, "healthyThreshold": 1, "http": object{"path": "/health"}}),
		{"FaultInjection", "fault-injections", "bench", object{
			"sources": selector("*"), "destinations": []object{{"match": object{tagService: "*", tagProtocol: "http"}}},
			"conf": object{"delay": object{"percentage": 1, "value": "10ms"}},
		}},
		everywhere("RateLimit", "rate-limits", object{"http": object{"requests": 1000, "interval": "1s"}}),
		everywhere("TrafficLog", "traffic-logs", object{"backend": "log"}),
		{"TrafficTrace", "traffic-traces", "bench", object{"selectors": selector("*"), "conf": object{"backend": "trace"}}},
		targeted("MeshTrafficPermission", "meshtrafficpermissions", object{"from": toAll(object{"action": "Allow"})}),
		targeted("MeshAccessLog", "meshaccesslogs", object{"to": toAll(file), "from": toAll(file)}),
		targeted("MeshTrace", "meshtraces", object{"default": object{"backends": []object{{"type": "Zipkin", "zipkin": object{"url": "http://127.0.0.1:9411/api/v2/spans"}}}}}),
		{"ExternalService", "external-services", "bench", object{"tags": object{tagService: "outside", tagProtocol: "http"}, "networking": object{"address": "192.0.2.1:80"}}},
		{"VirtualOutbound", "virtual-outbounds", "bench", object{
			"selectors": selector("*"),
			"conf":      object{"host": "{{.service}}.bench", "port": "80", "parameters": []object{{"name": "service", "tagKey": tagService}}},
		}},
		{"ProxyTemplate", "proxytemplates", "bench", object{"selectors": selector("*"), "conf": object{
			"imports": []string{"default-proxy"},
			"modifications": []object{{"virtualHost": object{
				"operation": "patch", "match": object{"origin": "outbound"}, "value": `request_headers_to_add: [{header: {key: x-bench, value: "1"}}]`,
			}}},
		}}},
	}
}

// kindsOf lists the kinds that a value of -policies names: all, all but some, or some.
func kindsOf(flag string) ([]installed, error) {
	all := policies()
	if flag == "" {
		return nil, nil
	}
	names, without := strings.CutPrefix(flag, "all-but=")
	if flag == "all" {
		names, without = "", true
	}
	named := strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
	for _, n := range named {
		if !slices.ContainsFunc(all, func(p installed) bool { return p.kind == n }) {
			return nil, fmt.Errorf("-policies: %q is no kind that is installed", n)
		}
	}
	return slices.DeleteFunc(all, func(p installed) bool { return slices.Contains(named, p.kind) == without }), nil
}

// install writes the policies that were asked for.
func (b *bench) install(ctx context.Context) error {
	for _, p := range b.policies {
		d := object{"type": p.kind, "mesh": meshName, "name": p.name}
		for k, v := range p.document {
			d[k] = v
		}
		if _, err := b.plane.call(ctx, http.MethodPut, "/meshes/"+meshName+"/"+p.path+"/"+p.name, d); err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
	}
	return nil
}
