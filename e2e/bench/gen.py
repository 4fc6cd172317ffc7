#!/usr/bin/env python3
"""Writes configs/*.yaml templates, tokens-*.txt and the JWT key. Placeholders: ${PORT_FILTER} ${PORT_ADMIN} ${PORT_UP} ${AUTHZ}."""
import json, os, random, time, base64
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
here = os.path.dirname(os.path.abspath(__file__)); os.chdir(here); os.makedirs("configs", exist_ok=True)
N = int(os.environ.get("TOKENS", "10000"))
V = ["6b6e2c1a-8d7b-4a6e-9a55-0c6f8e1d2f3a", "custom-4711", "user-4711", "email profile phone", "7f0a55f0-cd11-4f08-92e3-8a0f1c2d3e4f"]
K = ["x-consumer-id", "x-consumer-custom-id", "x-consumer-username", "x-authenticated-scope", "x-credential-identifier"]
random.seed(1)
o = list(range(N)); random.shuffle(o)
open("tokens-num.txt", "w").write("".join("Bearer %032d\n" % i for i in o))
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
pn = key.public_key().public_numbers()
b = lambda n: base64.urlsafe_b64encode(n.to_bytes((n.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()
jwks = json.dumps({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1", "n": b(pn.n), "e": b(pn.e)}]})
with open("tokens-jwt.txt", "w") as f:
    for i in range(1000):
        f.write("Bearer " + jwt.encode({"iss": "https://bench.example", "sub": V[0], "aud": "bench", "exp": int(time.time()) + 30 * 86400,
          "jti": "%032d" % i, "custom_id": V[1], "username": V[2], "scope": V[3], "cred": V[4]}, key, algorithm="RS256", headers={"kid": "k1"}) + "\n")
Y = lambda s, n: "".join(" " * n + l + "\n" for l in s.strip("\n").split("\n"))
T = "type.googleapis.com/envoy.extensions.filters.http."
def conf(name, filt, clusters=""):
    s = '''admin: {address: {socket_address: {address: 127.0.0.1, port_value: ${PORT_ADMIN}}}}
static_resources:
  listeners:
  - name: l
    address: {socket_address: {address: 127.0.0.1, port_value: ${PORT_FILTER}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          use_remote_address: true
          internal_address_config: {cidr_ranges: [{address_prefix: 255.255.255.255, prefix_len: 32}]}
          route_config:
            virtual_hosts:
            - name: a
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route: {cluster: up}
          http_filters:
'''
    if filt: s += Y(filt, 10)
    s += '''          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: up
    load_assignment:
      cluster_name: up
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: ${PORT_UP}}}}}]}]
''' + clusters
    open("configs/%s.yaml" % name, "w").write(s)
conf("none", "")
apikey = '''
- name: api_key_auth
  typed_config:
    "@type": %sapi_key_auth.v3.ApiKeyAuth
    key_sources: [{header: authorization}]
    forwarding: {header: x-consumer-id}
    credentials:
''' % T + "".join("    - {key: '%032d', client: client-%d}\n" % (i, i) for i in range(N))
conf("apikey", apikey)
def jwtf(extra):
    return '''
- name: jwt
  typed_config:
    "@type": %sjwt_authn.v3.JwtAuthentication
    providers:
      p:
        issuer: https://bench.example
        audiences: [bench]
        forward: true
        local_jwks: {inline_string: '%s'}
%s    rules:
    - match: {prefix: /}
      requires: {provider_name: p}
''' % (T, jwks, "".join("        " + l + "\n" for l in extra))
cache = ["jwt_cache_config: {jwt_cache_size: 2000}"]
claims = ["claim_to_headers:"] + ["- {header_name: %s, claim_name: %s}" % x for x in zip(K, ["sub", "custom_id", "username", "scope", "cred"])]
conf("jwt", jwtf([])); conf("jwt-cache", jwtf(cache)); conf("jwt-cache-5hdr", jwtf(cache + claims))
conf("extauthz", '''
- name: ext_authz
  typed_config:
    "@type": %sext_authz.v3.ExtAuthz
    transport_api_version: V3
    grpc_service: {envoy_grpc: {cluster_name: authz}, timeout: 5s}
''' % T, '''  - name: authz
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: authz
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: "${AUTHZ}"}}}}]}]
''')
lua = '''
local T = {}
for i = 0, %d do T[string.format("%%032d", i)] = {%s} end
function envoy_on_request(h)
  local hs = h:headers()
  local a = hs:get("authorization")
  local e = a and a:sub(1, 7) == "Bearer " and T[a:sub(8)]
  if not e then h:respond({[":status"] = "401"}, "denied") return end
%s
end
''' % (N - 1, ", ".join('"%s"' % v for v in V), "\n".join('  hs:replace("%s", e[%d])' % (k, i + 1) for i, k in enumerate(K)))
conf("lua", '''
- name: lua
  typed_config:
    "@type": %slua.v3.Lua
    default_source_code:
      inline_string: |
''' % T + Y(lua, 8))
hdrmut = '''
- name: header_mutation
  typed_config:
    "@type": %sheader_mutation.v3.HeaderMutation
    mutations:
      request_mutations:
''' % T + "".join("      - append: {append_action: OVERWRITE_IF_EXISTS_OR_ADD, header: {key: %s, value: '%s'}}\n" % x for x in zip(K, V))
conf("hdrmut", hdrmut); conf("native", apikey.rstrip("\n") + hdrmut)
open("configs/_upstream.yaml", "w").write('''admin: {address: {socket_address: {address: 127.0.0.1, port_value: ${PORT_UP_ADMIN}}}}
static_resources:
  listeners:
  - name: up
    address: {socket_address: {address: 127.0.0.1, port_value: ${PORT_UP}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: u
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: a
              domains: ["*"]
              routes:
              - match: {prefix: /}
                direct_response: {status: 200, body: {inline_string: ok}}
          http_filters:
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
''')
open("variants.txt", "w").write('''# name  config  [key=value ...]
#   base=NAME    variant whose cost is subtracted ("added cost")     tokens=FILE  one Authorization value per line, cycled by the load
#   bad=STATUS   status expected for a bad token (401/403/200)       headers=N    number of x-* auth headers the upstream must see
#   sidecar=CMD  helper started on the load core, {AUTHZ} (its socket) etc. are replaced    env.NAME=VALUE  environment of the filter Envoy
none            configs/none.yaml            tokens=tokens-num.txt bad=200 headers=0
none-again      configs/none.yaml            base=none tokens=tokens-num.txt bad=200 headers=0
none-jwt        configs/none.yaml            tokens=tokens-jwt.txt bad=200 headers=0
hdrmut          configs/hdrmut.yaml          base=none tokens=tokens-num.txt bad=200 headers=5
apikey          configs/apikey.yaml          base=none tokens=tokens-num.txt bad=401 headers=1
native          configs/native.yaml          base=none tokens=tokens-num.txt bad=401 headers=5
jwt             configs/jwt.yaml             base=none-jwt tokens=tokens-jwt.txt bad=401 headers=0
jwt-cache       configs/jwt-cache.yaml       base=none-jwt tokens=tokens-jwt.txt bad=401 headers=0
jwt-cache-5hdr  configs/jwt-cache-5hdr.yaml  base=none-jwt tokens=tokens-jwt.txt bad=401 headers=5
lua             configs/lua.yaml             base=none tokens=tokens-num.txt bad=401 headers=5
extauthz        configs/extauthz.yaml        base=none tokens=tokens-num.txt bad=401 headers=5 sidecar='./authz-server {AUTHZ}'
''')
