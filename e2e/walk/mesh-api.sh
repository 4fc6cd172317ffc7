#!/usr/bin/env bash
# Walks through the mesh API with curl, table by table, and says of each row whether it answers
# as documented. Usage: mesh-api.sh BASE NATIVE, e.g. http://127.0.0.1:5681 http://127.0.0.1:5781.
#
# It expects a control plane in which the mesh walk, with mutual TLS by the backend ca, has the proxies
# web-1 (with an outbound to backend), backend-1 and door-1 (of the gateway door, with a route to
# backend), and the zone $ZONE has the ingress in and the egress out, all of them connected, and the egress
# gone, which no longer is. $SPARE is a port that is free. $ROOT and $ROOTKEY are files with the root of a
# mesh and its key. It deletes what it makes, but for a backend of logs and one of traces in the mesh walk.
#
# NATIVE is a control plane with environment kubernetes, with the texts $PLANTED in its settings that are
# secrets.
set -uo pipefail
M=$1 NATIVE=$2
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
rows=0 failed=0

# table NAME begins a table.
table() { printf '\n## %s\n' "$1"; }

# defs are functions of conditions: filled, because "" and 0 are true in jq, and the claims of a token.
defs='def filled: type == "string" and length > 0;
  def claims: split(".") | if length == 3 then .[1] else error("a token has three parts") end | gsub("-"; "+") | gsub("_"; "/")
    | . + ["", "", "==", "="][length % 4] | @base64d | fromjson;'

# row STATUS CONDITION METHOD PATH [BODY] asks, and demands a status and, of the answer, a
# condition of jq (none if it is empty). With raw=-R the answer is a text.
row() {
  local want=$1 holds=$2 method=$3 path=$4 body=${5-}
  local args=(-sS -g --max-time 20 -o "$answer" -w '%{http_code}' -X "$method")
  [ -n "$body" ] && args+=(-H 'Content-Type: application/json' --data-binary "$body")
  case $path in http*) ;; *) path=$M$path ;; esac
  : >"$answer"
  local got verdict=ok
  got=$(curl "${args[@]}" "$path")
  [ "$got" = "$want" ] || verdict=FAILED
  [ -z "$holds" ] || jq ${raw-} -e "$defs $holds" "$answer" >/dev/null 2>&1 || verdict=FAILED
  rows=$((rows + 1))
  printf '%-6s %-6s %s %s\n' "$verdict" "$method" "$got" "${path#"$M"}"
  [ $verdict = ok ] && return
  failed=$((failed + 1))
  printf '       wanted %s and %s\n       got %s\n' "$want" "${holds:-nothing else}" "$(head -c 1500 "$answer")"
}

# part PATH EXPRESSION is a part of a document.
part() { curl -sS -g --max-time 20 "$M$1" | jq -ce "$2" || echo none; }

# is DOCUMENT is the condition that an answer is a document, but for its times.
is() { printf '(del(.creationTime, .modificationTime) == (%s))' "$1"; }

times='([.creationTime, .modificationTime] | all(test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$")))'
listed='(.items | type == "array") and (.total | type == "number") and has("next")'

# kind COLLECTION TYPE MEMBERS CHANGE [ATTACHED] [DEFAULTS]: every operation of a kind of a mesh. MEMBERS are what
# its document has besides type, mesh and name; CHANGE and DEFAULTS are expressions of jq, which make another
# document of it and add what is said without having been given.
kind() {
  local path=$1 doc changed was now
  doc='{"type":"'$2'","mesh":"walk","name":"sample",'$3'}'
  changed=$(jq -c "$4" <<<"$doc")
  was=$(jq -c "${6:-.}" <<<"$doc") now=$(jq -c "${6:-.}" <<<"$changed")
  row 201 '' PUT "/meshes/walk/$path/sample" "$doc"
  row 200 "$(is "$was") and $times" GET "/meshes/walk/$path/sample"
  row 200 "$listed and any(.items[]; $(is "$was"))" GET "/meshes/walk/$path"
  row 200 "$listed and any(.items[]; $(is "$was"))" GET "/$path"
  [ -z "${5-}" ] || row 200 "$5" GET "/meshes/walk/$path/sample/dataplanes"
  row 200 '' PUT "/meshes/walk/$path/sample" "$changed"
  row 200 "($was) != ($now) and $(is "$now") and $times" GET "/meshes/walk/$path/sample"
  row 200 '' DELETE "/meshes/walk/$path/sample"
  row 404 '(.title | filled) and .status == 404' GET "/meshes/walk/$path/sample"
}

ends='"sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}]'
all='"selectors":[{"match":{"mesh.io/service":"*"}}]'
# attached TYPE is what inspection says of a policy that holds for the outbound of web-1.
attached() {
  printf '%s' '.total == 1 and .items[0].kind == "SidecarDataplane" and .items[0].dataplane == {"mesh":"walk","name":"web-1"}
  and (.items[0].attachments | length == 1 and (.[0] | .type == "'"$1"'" and .service == "backend" and (.name | filled)))'
}
# whole is what it says of one that holds for proxies as a whole, of which those of gateways have other members.
whole='(.items | map(select(.kind == "SidecarDataplane") | [.dataplane.name, (.attachments | length > 0 and all(.type == "dataplane"))])) == [["backend-1",true],["web-1",true]]'
# inbound FIELDS is what it says of one that holds for the inbound of backend-1.
inbound='.total == 1 and .items[0].dataplane == {"mesh":"walk","name":"backend-1"}
  and (.items[0].attachments | length == 1 and (.[0] | .type == "inbound" and .service == "backend" and (.name | filled)))'

table 'Mesh'
mesh='{"type":"Mesh","name":"walk-2",
  "mtls":{"enabledBackend":"own","backends":[{"name":"own","type":"builtin"}]},
  "tracing":{"defaultBackend":"spans","backends":[{"name":"spans","type":"zipkin","conf":{"url":"http://127.0.0.1:9411/api/v2/spans"}}]},
  "logging":{"backends":[{"name":"files","type":"file","format":"%START_TIME%","conf":{"path":"walk.log"}},{"name":"wire","type":"tcp","conf":{"address":"127.0.0.1:5000"}}]},
  "metrics":{"enabledBackend":"figures","backends":[{"name":"figures","type":"prometheus","conf":{"port":5670,"path":"/metrics"}}]}}'
row 201 '' PUT /meshes/walk-2 "$mesh"
# A page of metrics gets tags, and settings of TLS, that nobody has given.
row 200 "$(is "$(jq -c '.metrics.backends[0].conf += {"tags":{"mesh.io/service":"dataplane-metrics"},"tls":{}}' <<<"$mesh")") and $times" GET /meshes/walk-2
row 200 '' PUT /meshes/walk-2 "$mesh"
row 200 "$listed and any(.items[]; .name == \"walk-2\")" GET /meshes
row 400 '.invalid_parameters[0].field' PUT /meshes/walk-2 '{"type":"Mesh","name":"walk-2","mtls":{"enabledBackend":"none"}}'
secret() { printf '{"type":"Secret","mesh":"walk-3","name":"%s","data":"%s"}' "$1" "$(base64 -w0 <"$2")"; }
row 201 '' PUT /meshes/walk-3 '{"type":"Mesh","name":"walk-3"}'
row 201 '' PUT /meshes/walk-3/secrets/ca-cert "$(secret ca-cert "$ROOT")"
row 201 '' PUT /meshes/walk-3/secrets/ca-key "$(secret ca-key "$ROOTKEY")"
provided='{"type":"Mesh","name":"walk-3","mtls":{"backends":[{"name":"ca","type":"provided","conf":{"cert":{"secret":"ca-cert"},"key":{"secret":"ca-key"}}}]}}'
row 200 '' PUT /meshes/walk-3 "$provided"
row 200 "$(is "$provided")" GET /meshes/walk-3
row 200 '' DELETE /meshes/walk-3

table 'Dataplane'
member='"networking":{"address":"127.0.0.9","inbound":[{"port":9300,"servicePort":9301,"tags":{"mesh.io/service":"sample","mesh.io/protocol":"http"}}],
  "outbound":[{"port":9302,"tags":{"mesh.io/service":"backend"}},{"port":9303,"service":"web"}]}'
kind dataplanes Dataplane "$member" '.networking.inbound[0].port = 9304'

table 'DataplaneOverview'
overview='.type == "DataplaneOverview" and .mesh == "walk" and .name == "web-1" and (.dataplane.networking.inbound | length == 1)
  and (.dataplaneInsight | .mTLS.issuedBackend == "ca" and .mTLS.supportedBackends == ["ca"] and .mTLS.certificateRegenerations >= 1
    and ([.mTLS.certificateExpirationTime, .mTLS.lastCertificateRegeneration] | all(test("Z$"))))
  and (.dataplaneInsight.subscriptions[-1] | ([.id, .controlPlaneInstanceId, .connectTime] | all(filled))
    and (.status | (.lastUpdateTime | filled) and ([.total, .cds, .eds, .lds] | all((.responsesSent | filled) and (.responsesAcknowledged | filled))) and has("rds")))'
row 200 "$overview and $times" GET /meshes/walk/dataplanes+insights/web-1
row 200 "$listed and any(.items[]; $overview)" GET /meshes/walk/dataplanes+insights
row 200 "$listed and any(.items[]; $overview)" GET /dataplanes+insights

table 'Policies'
checked='"interval":"10s","timeout":"2s","unhealthyThreshold":3,"healthyThreshold":1,"reuseConnection":false'
kind health-checks HealthCheck "$ends,\"conf\":{$checked"',"tcp":{"send":"Zm9v","receive":["YmFy","YmF6"]}}' '.conf.timeout = "3s"' "$(attached service)"
kind health-checks HealthCheck "$ends,\"conf\":{$checked"',
  "http":{"path":"/health","requestHeadersToAdd":[{"append":false,"header":{"key":"Content-Type","value":"application/json"}},{"header":{"key":"Accept","value":"*/*"}}],
    "expectedStatuses":[200,201],"useHttp1":true}}' '.conf.http.path = "/live"' "$(attached service)"
kind proxytemplates ProxyTemplate "$all"',"conf":{"imports":["default-proxy"],"resources":[{"name":"spare","version":"v1",
  "resource":"\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: spare\nconnect_timeout: 5s\ntype: STRICT_DNS\nload_assignment: {cluster_name: spare}\n"}]}' '.conf.resources[0].version = "v2"' "$whole"
kind traffic-permissions TrafficPermission "$ends" '.sources[0].match["mesh.io/service"] = "*"' "$inbound"
row 200 '' PUT /meshes/walk '{"type":"Mesh","name":"walk","mtls":{"enabledBackend":"ca","backends":[{"name":"ca","type":"builtin"}]},
  "logging":{"backends":[{"name":"files","type":"file","conf":{"path":"/dev/null"}}]},
  "tracing":{"backends":[{"name":"spans","type":"zipkin","conf":{"url":"http://127.0.0.1:9411/api/v2/spans"}}]}}'
kind traffic-logs TrafficLog "$ends"',"conf":{"backend":"files"}' '.sources[0].match["mesh.io/service"] = "*"' "$(attached service)"
kind traffic-routes TrafficRoute "$ends"',"conf":{"split":[{"weight":90,"destination":{"mesh.io/service":"backend"}},{"weight":10,"destination":{"mesh.io/service":"web"}}]}' '.conf.split[0].weight = 80' "$(attached outbound)"
kind traffic-traces TrafficTrace "$all"',"conf":{"backend":"spans"}' '.selectors[0].match["mesh.io/service"] = "web"' "$whole"
kind fault-injections FaultInjection '"sources":[{"match":{"mesh.io/service":"web","mesh.io/protocol":"http"}}],"destinations":[{"match":{"mesh.io/service":"backend","mesh.io/protocol":"http"}}],
  "conf":{"delay":{"percentage":50.5,"value":"0.050s"},"abort":{"percentage":50,"httpStatus":500},"responseBandwidth":{"percentage":50,"limit":"50 mbps"}}' '.conf.abort.httpStatus = 503' "$inbound"
kind retries Retry "$ends"',"conf":{"http":{"numRetries":5,"perTryTimeout":"0.200s","backOff":{"baseInterval":"0.020s","maxInterval":"1s"},"retriableStatusCodes":[500,504]},
  "grpc":{"numRetries":5,"perTryTimeout":"0.200s","backOff":{"baseInterval":"0.020s","maxInterval":"1s"},"retryOn":["cancelled","deadline_exceeded","internal","resource_exhausted","unavailable"]},
  "tcp":{"maxConnectAttempts":3}}' '.conf.http.numRetries = 4' "$(attached service)"
kind timeouts Timeout "$ends"',"conf":{"connectTimeout":"10s","tcp":{"idleTimeout":"3600s"},"http":{"requestTimeout":"5s","idleTimeout":"3600s"},"grpc":{"streamIdleTimeout":"5s","maxStreamDuration":"30s"}}' '.conf.connectTimeout = "9s"' "$(attached outbound)"
kind external-services ExternalService '"networking":{"address":"mail.example:443","tls":{"enabled":true,"caCert":{"inline":"'"$(base64 -w0 <"$ROOT")"'"}}},
  "tags":{"mesh.io/protocol":"http","mesh.io/service":"mail"}' '.networking.address = "mail.example:444"'
kind circuit-breakers CircuitBreaker "$ends"',"conf":{"interval":"1s","baseEjectionTime":"30s","maxEjectionPercent":20,"thresholds":{"maxConnections":2}}' '.conf.interval = "2s"' "$(attached service)"
kind rate-limits RateLimit "$ends"',"conf":{"http":{"requests":5,"interval":"10s","onRateLimit":{"status":429}}}' '.conf.http.requests = 6' "$inbound"
kind virtual-outbounds VirtualOutbound "$all"',"conf":{"host":"{{.service}}.walk","port":"{{.port}}","parameters":[{"name":"service","tagKey":"mesh.io/service"},{"name":"port","tagKey":"port"}]}' '.conf.host = "{{.service}}.other"'
kind meshgateways MeshGateway '"selectors":[{"match":{"mesh.io/service":"other"}}],"conf":{"listeners":[{"port":9400,"protocol":"HTTP","hostname":"walk.example","tags":{"port":"http"}}]}' '.conf.listeners[0].port = 9401'
kind meshgatewayroutes MeshGatewayRoute '"selectors":[{"match":{"mesh.io/service":"other"}}],
  "conf":{"http":{"hostnames":["walk.example"],"rules":[{"matches":[{"path":{"match":"PREFIX","value":"/"}}],"backends":[{"weight":1,"destination":{"mesh.io/service":"backend"}}]}]}}' '.conf.http.hostnames = ["other.example"]'

table 'Secret and global secret'
kind secrets Secret '"data":"c2VjcmV0"' '.data = "b3RoZXI="'
row 201 '' PUT /global-secrets/sample '{"type":"GlobalSecret","name":"sample","data":"c2VjcmV0"}'
row 200 "(.name == \"sample\" and .data == \"c2VjcmV0\" and (has(\"mesh\") | not)) and $times" GET /global-secrets/sample
row 200 '' PUT /global-secrets/sample '{"type":"GlobalSecret","name":"sample","data":"b3RoZXI="}'
row 200 "$listed and any(.items[]; .name == \"sample\" and .data == \"b3RoZXI=\")" GET /global-secrets
row 200 '' DELETE /global-secrets/sample
row 404 '.status == 404' GET /global-secrets/sample

table 'Zone, ZoneOverview, ZoneIngress, ZoneIngressOverview'
row 201 '' PUT /zones/east '{"type":"Zone","name":"east","enabled":true}'
row 200 ".name == \"east\" and .enabled == true and $times" GET /zones/east
row 200 '' PUT /zones/east '{"type":"Zone","name":"east","enabled":false}'
row 200 "$listed and any(.items[]; .name == \"east\" and .enabled == false)" GET /zones
row 200 '.type == "ZoneOverview" and .name == "east" and .zone.enabled == false' GET /zones+insights/east
zone='.type == "ZoneOverview" and (.zoneInsight.subscriptions[-1] | ([.config, .id, .globalInstanceId, .connectTime] | all(filled)) and (.status | has("total"))
  and (.version.meshCp | (.version | filled) and has("gitTag") and has("gitCommit") and has("buildDate")) and (has("disconnectTime") | not))'
row 200 "$zone" GET "/zones+insights/$ZONE"
row 200 "$listed and any(.items[]; $zone)" GET /zones+insights
row 200 '' DELETE /zones/east
# An ingress leads to proxies of meshes only, so no service of it is external.
ingress='.zone == "'"$ZONE"'" and (.networking | (.address | filled) and .port > 0)
  and any(.availableServices[]; .mesh == "walk" and .instances >= 1 and .tags["mesh.io/service"] == "backend") and all(.availableServices[]; .externalService // false | not)'
row 200 "$listed and any(.items[]; .name == \"in\" and $ingress)" GET /zone-ingresses
row 200 ".name == \"in\" and ($ingress) and $times" GET /zone-ingresses/in
proxy='(.subscriptions[-1] | ([.id, .controlPlaneInstanceId, .connectTime] | all(filled))
  and (.status | (.lastUpdateTime | filled) and ([.total, .cds, .eds, .lds] | all(.responsesSent | filled)) and has("rds"))
  and (.version | (.meshDp | (.version | filled) and has("gitTag") and has("gitCommit") and has("buildDate")) and (.proxy | (.version | filled) and has("build") and .meshDpCompatible == true)))'
overview=".type == \"ZoneIngressOverview\" and .name == \"in\" and (.zoneIngress | $ingress) and (.zoneIngressInsight | $proxy and (.subscriptions[-1] | has(\"generation\")))"
row 200 "$listed and any(.items[]; $overview)" GET /zoneingresses+insights
row 200 "$overview" GET /zoneingresses+insights/in
row 200 "$listed and any(.items[]; .name == \"out\")" GET /zoneegresses
row 200 ".name == \"out\" and .networking.port > 0 and $times" GET /zoneegresses/out
overview=".type == \"ZoneEgressOverview\" and .name == \"out\" and .zoneEgress.networking.port > 0 and (.zoneEgressInsight | $proxy)"
row 200 "$listed and any(.items[]; $overview)" GET /zoneegressoverviews
row 200 "$overview" GET /zoneegressoverviews/out
row 200 '.zoneEgressInsight.subscriptions[-1] | .disconnectTime > .connectTime' GET /zoneegressoverviews/gone

table 'Insights'
insight='.type == "MeshInsight" and .name == "walk" and (.lastSync | filled) and .dataplanes.total == 3
  and .dataplanesByType.standard.total == 2 and .dataplanesByType.gateway.total == 1
  and .policies.TrafficPermission.total == 1 and ([.dpVersions.meshDp[], .dpVersions.proxy[]] | length == 2 and all(.total == 3 and .online == 3))
  and ([.mTLS.issuedBackends.ca, .mTLS.supportedBackends.ca] | all(.total == 3 and .online == 3)) and .services.total == 3 and .services.internal == 3'
row 200 "($insight) and $times" GET /mesh-insights/walk
row 200 "$listed and any(.items[]; $insight)" GET /mesh-insights
service='.type == "ServiceInsight" and .mesh == "walk" and .name == "backend" and .status == "online" and .dataplanes == {"total":1,"online":1}'
row 200 "($service) and $times" GET /meshes/walk/service-insights/backend
row 200 "$listed and any(.items[]; $service)" GET /meshes/walk/service-insights
row 200 "$listed and any(.items[]; $service)" GET /service-insights
# Another instance of backend has no proxy, and one inbound of web-1 is not ready.
web=$(part /meshes/walk/dataplanes/web-1 'del(.creationTime, .modificationTime)')
row 201 '' PUT /meshes/walk/dataplanes/backend-2 '{"type":"Dataplane","mesh":"walk","name":"backend-2","networking":{"address":"127.0.0.9","inbound":[{"port":9300,"tags":{"mesh.io/service":"backend"}}]}}'
row 200 '' PUT /meshes/walk/dataplanes/web-1 "$(jq -c '.networking.inbound += [{"port":'"$SPARE"',"state":"NotReady","tags":{"mesh.io/service":"web"}}]' <<<"$web")"
row 201 '' PUT /meshes/walk/external-services/mail '{"type":"ExternalService","mesh":"walk","name":"mail","networking":{"address":"mail.example:443"},"tags":{"mesh.io/service":"mail"}}'
insight='.type == "MeshInsight" and .dataplanes == {"total":4,"online":2,"offline":1,"partiallyDegraded":1}
  and .dataplanesByType.standard == {"total":3,"online":1,"offline":1,"partiallyDegraded":1} and .dataplanesByType.gateway == {"total":1,"online":1}
  and ([.dpVersions.meshDp, .dpVersions.proxy] | all(.unknown == {"total":1,"offline":1} and any(.[]; .partiallyDegraded == 1)))
  and ([.mTLS.issuedBackends.ca, .mTLS.supportedBackends.ca] | all(.partiallyDegraded == 1)) and .services == {"total":4,"internal":3,"external":1}'
row 200 "$insight" GET /mesh-insights/walk
row 200 "$listed and any(.items[]; .name == \"walk\" and ($insight))" GET /mesh-insights
service='.type == "ServiceInsight" and .name == "backend" and .status == "partially_degraded" and .dataplanes == {"total":2,"online":1,"offline":1}'
row 200 "$service" GET /meshes/walk/service-insights/backend
row 200 "$listed and any(.items[]; $service)" GET /meshes/walk/service-insights
row 200 "$listed and any(.items[]; $service)" GET /service-insights
row 200 '.availableServices | length > 0 and all(.tags["mesh.io/service"] != "mail")' GET /zone-ingresses/in
row 200 '' DELETE /meshes/walk/external-services/mail
row 200 '' DELETE /meshes/walk/dataplanes/backend-2
row 200 '' PUT /meshes/walk/dataplanes/web-1 "$web"
row 200 '.type == "GlobalInsights" and (.creationTime | filled) and (.resources | [.GlobalSecret, .Mesh, .Zone, .ZoneIngress] | all(.total | type == "number"))' GET /global-insights

table 'Effective configuration'
keys='["adminServer","apiServer","bootstrapServer","dataplaneTokenServer","defaults","discovery","environment","general","guiServer",
  "monitoringAssignmentServer","reports","runtime","sdsServer","store","xdsServer"]'
row 200 "($keys - keys) == [] and .environment == \"universal\" and (.store.type | filled)
  and (.apiServer | (.corsAllowedDomains | type == \"array\") and has(\"readOnly\") and (.port // .http.port) > 0)" GET /config
row 200 '.environment == "kubernetes" and .meshgate.admin.token == "[redacted]" and .meshgate.redis.nodeURL == "[redacted]"' GET "$NATIVE/config"
for text in $PLANTED; do raw=-Rs row 200 "contains(\"$text\") | not" GET "$NATIVE/config"; done

table 'Conventions'
row 201 '' PUT /meshes/walk-2/dataplanes/a "{\"type\":\"Dataplane\",\"mesh\":\"walk-2\",\"name\":\"a\",$member}"
row 405 '' POST /meshes/walk-2/dataplanes/a "{\"type\":\"Dataplane\",\"mesh\":\"walk-2\",\"name\":\"a\",$member}"
row 400 '.status == 400 and (.invalid_parameters | length > 0)' PUT /meshes/walk-2/dataplanes/a '{"type":"Dataplane","mesh":"walk-2","name":"b"}'
row 404 '.status == 404' GET /meshes/none/dataplanes
row 404 '.status == 404' DELETE /meshes/walk-2/dataplanes/none

table 'Universal mode only'
# An orchestrator changes the state of the other control plane, so its API serves reads.
for path in health-checks proxytemplates traffic-permissions traffic-logs traffic-routes traffic-traces fault-injections retries timeouts external-services \
  circuit-breakers rate-limits virtual-outbounds meshgateways meshgatewayroutes dataplanes secrets; do
  native+=("/meshes/default/$path")
done
for path in "${native[@]}" /meshes /zones /global-secrets; do
  row 200 "$listed" GET "$NATIVE$path"
  row 405 '.status == 405 and (.detail | filled)' PUT "$NATIVE$path/sample" '{"name":"sample"}'
  row 405 '.status == 405 and (.detail | filled)' DELETE "$NATIVE$path/sample"
done

table 'Top level'
row 200 '.meshDp | length > 0 and (to_entries | all(.value.proxy | filled))' GET /versions
names='["CircuitBreaker circuit-breakers","ExternalService external-services","FaultInjection fault-injections","HealthCheck health-checks","MeshGateway meshgateways",
  "MeshGatewayRoute meshgatewayroutes","ProxyTemplate proxytemplates","RateLimit rate-limits","Retry retries","Timeout timeouts","TrafficLog traffic-logs",
  "TrafficPermission traffic-permissions","TrafficRoute traffic-routes","TrafficTrace traffic-traces","VirtualOutbound virtual-outbounds"]'
row 200 "($names - [.policies[] | select(.readOnly == false and (.displayName | filled)) | \"\\(.name) \\(.path)\"]) == []" GET /policies
row 200 "any(.[]; .name == \"$ZONE\" and has(\"url\") and .active == true)" GET /status/zones

table 'Pagination'
for n in b c; do
  row 201 '' PUT /meshes/walk-2/dataplanes/$n "{\"type\":\"Dataplane\",\"mesh\":\"walk-2\",\"name\":\"$n\",$member}"
done
row 200 '(.items | map(.name)) == ["a","b"] and .total == 3 and (.next | test("size=2") and test("offset="))' GET '/meshes/walk-2/dataplanes?size=2'
row 200 '(.items | map(.name)) == ["c"] and .next == null' GET "$(jq -r .next "$answer")"
row 200 '(.items | length) == 3 and .next == null' GET '/meshes/walk-2/dataplanes?size=1000'
row 400 '.status == 400' GET '/meshes/walk-2/dataplanes?size=1001'
row 400 '.status == 400' GET '/meshes/walk-2/dataplanes?size=-1'
row 400 '.status == 400' GET '/meshes/walk-2/dataplanes?offset=nowhere'

# A page has 100 without a size. These writes are no rows: the answers below tell whether they have succeeded.
for n in {100..200}; do
  curl -sS -o "$answer" --max-time 20 -X PUT -H 'Content-Type: application/json' "$M/meshes/walk-2/health-checks/t$n" \
    --data '{"type":"HealthCheck","mesh":"walk-2","name":"t'"$n"'",'"$ends,\"conf\":{$checked}"'}'
done
row 200 '(.items | length) == 100 and .items[0].name == "t100" and .items[99].name == "t199" and .total == 101 and (.next | filled)' GET /meshes/walk-2/health-checks
row 200 '(.items | map(.name)) == ["t200"] and .next == null' GET "$(jq -r .next "$answer")"
curl -sS -o "$answer" --max-time 20 -X DELETE "$M/meshes/walk-2/health-checks/t[100-200]"
row 200 '.items == [] and .total == 0 and .next == null' GET /meshes/walk-2/health-checks

table 'Tokens'
request='{"name":"web-1","mesh":"walk","tags":{"mesh.io/service":["web"]},"validFor":"1h"}'
hour='.exp - .iat == 3600'
for method in PUT POST; do
  raw=-R row 200 "claims | $hour and .Name == \"web-1\" and .Mesh == \"walk\" and .Tags == {\"mesh.io/service\":[\"web\"]}" $method /tokens/dataplane "$request"
done
raw=-R row 200 "claims | $hour and .Zone == \"$ZONE\"" POST /tokens/zone-ingress '{"zone":"'"$ZONE"'","validFor":"1h"}'
row 400 '.invalid_parameters[0].field == "zone"' POST /tokens/zone-ingress '{"validFor":"1h"}'

table 'Inspect API'
row 200 '.kind == "SidecarDataplane" and .total == (.items | length) and (["inbound","outbound","service"] - [.items[].type]) == []
  and any(.items[]; (.name | filled) and (.matchedPolicies.TrafficRoute // [] | any(.[]; .type == "TrafficRoute" and .mesh == "walk" and ([.name, .creationTime, .modificationTime] | all(filled)))))' GET /meshes/walk/dataplanes/web-1/policies
row 200 '.kind == "MeshGatewayDataplane" and .gateway == {"mesh":"walk","name":"door"} and (.listeners[0] | .port > 0 and .protocol == "HTTP"
  and (.hosts[0] | (.hostName | filled) and (.routes[0] | (.route | filled) and (.destinations[0] | .tags["mesh.io/service"] == "backend" and (.policies | type == "object")))))' GET /meshes/walk/dataplanes/door-1/policies
row 200 '.total == 1 and .items == [{"dataplane":{"mesh":"walk","name":"door-1"}}]' GET /meshes/walk/meshgateways/door/dataplanes
row 201 '' PUT /meshes/walk/meshtrafficpermissions/sample '{"type":"MeshTrafficPermission","mesh":"walk","name":"sample","spec":{"targetRef":{"kind":"MeshService","name":"backend"},
  "from":[{"targetRef":{"kind":"MeshSubset","tags":{"mesh.io/service":"web"}},"default":{"action":"ALLOW"}}]}}'
row 200 'any(.items[]; .policyType == "MeshTrafficPermission" and .type == "clientSubset" and (.name | filled) and (.subset | type == "object") and .conf.action == "Allow"
  and .origins == [{"mesh":"walk","name":"sample"}])' GET /meshes/walk/dataplanes/backend-1/rules
row 200 '' DELETE /meshes/walk/meshtrafficpermissions/sample
rule='(.name | filled) and (.subset | type == "object") and (.conf | type == "object" and length > 0) and .origins == [{"mesh":"walk","name":"sample"}]'
row 201 '' PUT /meshes/walk/meshaccesslogs/sample '{"type":"MeshAccessLog","mesh":"walk","name":"sample","spec":{"targetRef":{"kind":"MeshService","name":"web"},
  "to":[{"targetRef":{"kind":"MeshService","name":"backend"},"default":{"backends":[{"type":"File","file":{"path":"/dev/null"}}]}}]}}'
row 200 ".total == (.items | length) and any(.items[]; .type == \"destinationSubset\" and .policyType == \"MeshAccessLog\" and .service == \"backend\" and $rule)" GET /meshes/walk/dataplanes/web-1/rules
row 200 '' DELETE /meshes/walk/meshaccesslogs/sample
row 201 '' PUT /meshes/walk/meshtraces/sample '{"type":"MeshTrace","mesh":"walk","name":"sample","spec":{"targetRef":{"kind":"Mesh"},
  "default":{"backends":[{"type":"Zipkin","zipkin":{"url":"http://127.0.0.1:9411/api/v2/spans"}}]}}}'
row 200 ".total == (.items | length) and any(.items[]; .type == \"singleItem\" and .policyType == \"MeshTrace\" and $rule)" GET /meshes/walk/dataplanes/web-1/rules
row 200 '' DELETE /meshes/walk/meshtraces/sample
row 201 '' PUT /meshes/walk/timeouts/sample '{"type":"Timeout","mesh":"walk","name":"sample","sources":[{"match":{"mesh.io/service":"door"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],
  "conf":{"connectTimeout":"9s"}}'
row 200 '.total == 1 and (.items[0] | .kind == "MeshGatewayDataplane" and .dataplane == {"mesh":"walk","name":"door-1"} and .gateway == {"mesh":"walk","name":"door"} and (has("attachments") | not)
  and (.listeners | length == 1 and (.[0] | .port > 0 and .protocol == "HTTP" and (.hosts[0] | (.hostName | filled) and (.routes[0] | (.route | filled) and .destinations == [{"mesh.io/service":"backend"}])))))' \
  GET /meshes/walk/timeouts/sample/dataplanes
row 200 '' DELETE /meshes/walk/timeouts/sample
# The configuration is that of the proxy which was asked for: of that node, with listeners at its ports. The egress
# has no listener, because nothing of the mesh goes through it.
while read -r node xds port; do
  listens=true
  [ -z "$port" ] || listens="any(.configs[].dynamic_listeners[]?; .active_state.listener.address.socket_address == {\"address\":\"127.0.0.1\",\"port_value\":$port})"
  row 200 "all(.configs[]; .[\"@type\"] | filled) and ([.configs[].bootstrap.node.id // empty] == [\"$node\"]) and $listens" GET "$xds"
done <<END
walk.web-1 /meshes/walk/dataplanes/web-1/xds $(part /meshes/walk/dataplanes/web-1 .networking.outbound[0].port)
zone/ingress/in /zoneingresses/in/xds $(part /zone-ingresses/in .networking.port)
zone/egress/out /zoneegresses/out/xds
END

table 'Deletion'
for n in a b c; do row 200 '' DELETE /meshes/walk-2/dataplanes/$n; done
row 200 '' DELETE /meshes/walk-2
row 404 '.status == 404' GET /meshes/walk-2

printf '\n%d rows, %d of them failed\n' $rows $failed
[ $failed = 0 ]
