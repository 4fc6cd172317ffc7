#!/usr/bin/env python3
"""Fills a running control plane with what the bench needs, and writes the variants that use our filter.

  seed.py ADMIN_PORT MESH_PORT DATA_PORT CA_FILE ENVOY_ADMIN_SOCKET

One service, one route, one oauth2 plugin, one application and $TOKENS (10,000) tokens with the values that the other
variants know. The filter runs in a static Envoy configuration whose settings point at that control plane, so that
it holds a lease and answers from its first level, as in production. What the generated listener does to headers before
routing, and what it leaves to the filter, is taken from the configuration of the control plane's own gateway, at
ENVOY_ADMIN_SOCKET."""
import http.client, json, os, socket, sys, time
admin, mesh, data, ca, envoy = sys.argv[1:6]
here = os.path.dirname(os.path.abspath(__file__)); os.chdir(here)
N = int(os.environ.get("TOKENS", "10000"))
conns = {}
def call(port, method, path, doc=None):
    c = conns.setdefault(port, http.client.HTTPConnection("127.0.0.1", int(port), timeout=60))
    c.request(method, path, json.dumps(doc) if doc is not None else None, {"Content-Type": "application/json"} if doc is not None else {})
    r = c.getresponse(); body = r.read()
    if r.status >= 300: sys.exit("%s %s answered %d: %s" % (method, path, r.status, body.decode()))
    return body
J = lambda *a: json.loads(call(*a))
service = J(admin, "POST", "/services", {"name": "bench", "host": "127.0.0.1", "port": 1})
route = J(admin, "POST", "/services/bench/routes", {"name": "bench", "paths": ["/"]})
plugin = J(admin, "POST", "/services/bench/plugins", {"name": "oauth2", "config": {"enable_client_credentials": True}})
J(admin, "POST", "/consumers", {"username": "user-4711", "custom_id": "custom-4711"})
app = J(admin, "POST", "/consumers/user-4711/oauth2", {"name": "bench", "client_id": "7f0a55f0-cd11-4f08-92e3-8a0f1c2d3e4f", "redirect_uris": ["https://bench.example/"]})
for i in range(N):
    call(admin, "POST", "/oauth2_tokens", {"credential": {"id": app["id"]}, "service": {"id": service["id"]}, "expires_in": 0,
         "access_token": "%032d" % i, "scope": "email profile phone"})
    if i % 2000 == 1999: print("%d of %d tokens" % (i + 1, N), file=sys.stderr, flush=True)
open("node-token", "wb").write(call(mesh, "POST", "/tokens/gateway", {"name": "bench", "validFor": "24h"}))
settings = {"control_plane": {"address": "127.0.0.1:" + data, "ca_file": ca, "token_file": os.path.join(here, "node-token"), "node": "cp/default/bench"}, "cache": {}}
json.dump(settings, open("settings.json", "w"))
chain = {"route": route["id"], "service": service["id"], "plugins": [{"id": plugin["id"], "oauth2": {"header": "authorization"}}]}
base = open("configs/none.yaml").read()
T = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3."
S = '"@type": type.googleapis.com/google.protobuf.StringValue, value: '
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(envoy)
def dump(resource):
    u = Unix("envoy"); u.request("GET", "/config_dump?resource=" + resource)
    return json.loads(u.getresponse().read()).get("configs", [])
def inside(x, wanted):
    """All objects in a document that wanted says yes to, from the outside in."""
    if isinstance(x, dict) and wanted(x): yield x
    for v in x.values() if isinstance(x, dict) else x if isinstance(x, list) else (): yield from inside(v, wanted)
def generated():
    """The route table and the route of the service, as the gateway has them; None until it does."""
    for table in inside(dump("dynamic_route_configs"), lambda x: x.get("@type", "").endswith(".RouteConfiguration")):
        for r in inside(table, lambda x: x.get("metadata", {}).get("filter_metadata", {}).get("meshgate", {}).get("route_id") == route["id"] and "route" in x): return table, r
for deadline in range(100):
    if generated(): break
    time.sleep(0.1)
table, of = generated()
manager = next(inside(dump("dynamic_listeners"), lambda x: "http_filters" in x))
early = "".join("          %s: %s\n" % (k, json.dumps(manager[k])) for k in ("early_header_mutation_extensions", "append_x_forwarded_port") if k in manager)
own = next(f["typed_config"]["filter_config"]["value"] for f in manager["http_filters"] if f["name"] == "meshgate")
filt = '''          - name: meshgate
            typed_config:
              "@type": %sDynamicModuleFilter
              dynamic_module_config: {name: meshgate, do_not_close: true}
              filter_name: meshgate
              filter_config: {%s'CONFIG'}
''' % (T, S)
def with_filter(config, route, table=""):
    """The configuration of the bench with the filter, and more lines for its route and its table."""
    return (base.replace("          http_filters:\n", "          http_filters:\n" + filt.replace("CONFIG", config))
      .replace("                route: {cluster: up}\n", "                route: {cluster: up}\n" + route)
      .replace("            virtual_hosts:\n", table + "            virtual_hosts:\n"))
def lines(indent, of, *keys): return "".join("%s%s: %s\n" % (" " * indent, k, json.dumps(of[k])) for k in keys if k in of)
per = '''                typed_per_filter_config:
                  meshgate:
                    "@type": %sDynamicModuleFilterPerRoute
                    dynamic_module_config: {name: meshgate, do_not_close: true}
                    filter_name: meshgate
                    filter_config: {%s'%s'}
''' % (T, S, json.dumps(chain))
# Steps from the filter alone to all that a generated gateway does.
steps = {
    "installed": with_filter('{"listener_strips":true}', ""),                    # no chain: the filter looks, and lets the request go on
    "hygiene": with_filter(own, """                metadata: {filter_metadata: {meshgate: {filter: none}}}
""").replace("          http_filters:\n", early + "          http_filters:\n"),  # no chain, headers cleaned and written
    "decision": with_filter('{"listener_strips":true}', per),                    # look-up, expiry, floors, five headers
    "everything": with_filter(own, lines(16, of, "metadata", "request_headers_to_add"), lines(12, table, "typed_per_filter_config", "request_headers_to_add"))
      .replace("          http_filters:\n", early + "          http_filters:\n"),
}
with open("variants.txt", "a") as f:
    for name, config in steps.items():
        open("configs/meshgate-%s.yaml" % name, "w").write(config)
        decides = name in ("decision", "everything")
        # With -go every decision is made in Go.
        for end, remember in (("", "true"), ("-go", "false"))[:1 + decides]:
            f.write("%-22s configs/meshgate-%s.yaml base=none tokens=tokens-num.txt bad=%d headers=%d env.MESHGATE_FILTER_SETTINGS=%s env.MESHGATE_FILTER_REMEMBER=%s env.GODEBUG=gctrace=1\n" % (
                "meshgate-" + name + end, name, 401 if decides else 200, 5 if decides else 0, os.path.join(here, "settings.json"), remember))
    # Beside the two filters of Envoy that together do the same, and not beside none.
    f.write("meshgate-everything-or-native configs/meshgate-everything.yaml base=native tokens=tokens-num.txt bad=401 headers=5 env.MESHGATE_FILTER_SETTINGS=%s\n" % os.path.join(here, "settings.json"))
