package accesslog

import (
	"maps"
	"slices"

	"github.com/meshgate/meshgate/filter/contract"
)

// ending is a class of requests, by what the filter has recorded about them.
type ending int

const (
	// passed: nothing, or that it let the request pass after a wait. The metadata of the route
	// tells what the route does with it, and the headers tell who asks.
	passed ending = iota
	// ended: that the request was refused, or ended before the decision.
	ended
	// issued: that the request went to the OAuth server. It then takes another route, so the
	// filter also recorded the names of the first one.
	issued
	numEndings
)

// path is the path that the client requested, without the query. The first header, which the
// listener writes, includes prefixes that the route strips.
const path = "%REQ_WITHOUT_QUERY(X-FORWARDED-PATH?:PATH):512%"

// details is Envoy's own explanation of its response.
const details = "%RESPONSE_CODE_DETAILS%"

func ofRoute(key string) string {
	return "%METADATA(ROUTE:" + contract.MetadataNamespace + ":" + key + ")%"
}
func ofRequest(key string) string {
	return "%DYNAMIC_METADATA(" + contract.MetadataNamespace + ":" + key + ")%"
}

// nothing is a field that no request has.
var nothing = ofRequest("nothing")

// words maps the arguments of the operator %MESHGATE(word)% to Envoy's operators, one for each
// ending.
var words = map[string][numEndings]string{
	"decision":    {ofRoute(contract.MetaDecision), ofRequest(contract.MetaDecision), ofRequest(contract.MetaDecision)},
	"reason":      {ofRoute(contract.MetaReason), ofRequest(contract.MetaReason), nothing},
	"route":       {ofRoute(contract.MetaRoute), ofRoute(contract.MetaRoute), ofRequest(contract.MetaRoute)},
	"route_id":    {ofRoute(contract.MetaRouteID), ofRoute(contract.MetaRouteID), ofRequest(contract.MetaRouteID)},
	"service":     {ofRoute(contract.MetaService), ofRoute(contract.MetaService), ofRequest(contract.MetaService)},
	"service_id":  {ofRoute(contract.MetaServiceID), ofRoute(contract.MetaServiceID), ofRequest(contract.MetaServiceID)},
	"consumer":    {header(contract.HeaderConsumerUsername), ofRequest(contract.MetaConsumer), nothing},
	"consumer_id": {header(contract.HeaderConsumerID), ofRequest(contract.MetaConsumerID), nothing},
	"application": {header(contract.HeaderCredentialIdentifier), ofRequest(contract.MetaApplication), nothing},
	"anonymous":   {header(contract.HeaderAnonymousConsumer), nothing, nothing},
	"path":        {path, path, path},
	"details":     {details, details, details},
	// Only sidecars have these.
	"mesh":      {nothing, nothing, nothing},
	"direction": {nothing, nothing, nothing},
	"caller":    {nothing, nothing, nothing},
}

func header(h contract.Header) string { return "%REQ(" + contract.IdentityHeaders[h] + "):256%" }

// Words lists the arguments of the operator %MESHGATE(word)%.
func Words() []string { return slices.Sorted(maps.Keys(words)) }

// Default is the format if none is set.
const Default = `{
  "time": "%START_TIME%",
  "request_id": "%REQ(X-REQUEST-ID):128%",
  "decision": "%MESHGATE(decision)%",
  "reason": "%MESHGATE(reason)%",
  "status": "%RESPONSE_CODE%",
  "grpc_status": "%GRPC_STATUS_NUMBER%",
  "flags": "%RESPONSE_FLAGS%",
  "details": "%MESHGATE(details)%",
  "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
  "port": "%DOWNSTREAM_LOCAL_PORT%",
  "protocol": "%PROTOCOL%",
  "method": "%REQ(:METHOD):32%",
  "host": "%REQ(X-FORWARDED-HOST?:AUTHORITY):256%",
  "path": "%MESHGATE(path)%",
  "user_agent": "%REQ(USER-AGENT):256%",
  "route": "%MESHGATE(route)%",
  "route_id": "%MESHGATE(route_id)%",
  "service": "%MESHGATE(service)%",
  "service_id": "%MESHGATE(service_id)%",
  "consumer": "%MESHGATE(consumer)%",
  "consumer_id": "%MESHGATE(consumer_id)%",
  "application": "%MESHGATE(application)%",
  "anonymous": "%MESHGATE(anonymous)%",
  "upstream": "%UPSTREAM_HOST%",
  "cluster": "%UPSTREAM_CLUSTER%",
  "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
  "duration_ms": "%DURATION%",
  "first_byte_ms": "%RESPONSE_DURATION%",
  "bytes_in": "%BYTES_RECEIVED%",
  "bytes_out": "%BYTES_SENT%"
}`
