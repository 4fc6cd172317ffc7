package contract

// Decision is what became of a request, in one word. Words are stable: logs and
// metrics that people keep are made of them.
type Decision string

// Decisions.
const (
	// Allowed: every plugin of the route has let the request pass.
	Allowed Decision = "allowed"
	// Refused: the proxy has answered in the place of the service.
	Refused Decision = "refused"
	// Issued: the request went to the OAuth server.
	Issued Decision = "issued"
	// Undecided: nothing had to be decided, or the request ended before it was.
	Undecided Decision = "none"
)

// Reason says why a request was refused. It is for logs and metrics and never for
// the client, who must not learn from an answer whether a guess came close.
type Reason string

// Reasons of the filter.
const (
	ReasonTokenMissing     Reason = "token_missing"
	ReasonTokenUnknown     Reason = "token_unknown"
	ReasonTokenExpired     Reason = "token_expired"
	ReasonTokenRevoked     Reason = "token_revoked"
	ReasonTokenUnbound     Reason = "token_unbound"
	ReasonWrongService     Reason = "wrong_service"
	ReasonKeyMissing       Reason = "key_missing"
	ReasonKeyUnknown       Reason = "key_unknown"
	ReasonKeyExpired       Reason = "key_expired"
	ReasonKeyRevoked       Reason = "key_revoked"
	ReasonKeyDuplicate     Reason = "key_duplicate"
	ReasonOtherConsumer    Reason = "other_consumer"
	ReasonAnonymousMissing Reason = "anonymous_missing"
	ReasonTerminated       Reason = "terminated"
	ReasonProtocol         Reason = "protocol"
	ReasonAuthorityAway    Reason = "authority_away"
	ReasonRecordUnusable   Reason = "record_unusable"
	ReasonChainBroken      Reason = "chain_broken"
	ReasonFilterFailed     Reason = "filter_failed"
	ReasonBodyBudget       Reason = "body_budget"
	ReasonBodyDeadline     Reason = "body_deadline"
	ReasonNoOAuthRoute     Reason = "no_oauth_route"
	// ReasonUndecided: the proxy answered by itself, or the client left, before the
	// filter had decided.
	ReasonUndecided Reason = "undecided"
)

// Reasons of routes that answer by themselves.
const (
	ReasonNoRoute       Reason = "no_route"
	ReasonNoService     Reason = "no_service"
	ReasonMisconfigured Reason = "route_misconfigured"
	ReasonHTTPSRequired Reason = "https_required"
	ReasonMethod        Reason = "method_refused"
	ReasonPath          Reason = "path_refused"
)

// Reasons of sidecars, beside those of the filter.
const (
	ReasonNoPermission  Reason = "no_permission"
	ReasonFaultInjected Reason = "fault_injected"
	ReasonNoEndpoint    Reason = "no_endpoint"
	ReasonOverflow      Reason = "overflow"
	ReasonConnectFailed Reason = "connect_failed"
	ReasonTimeout       Reason = "timeout"
	ReasonReset         Reason = "reset"
)

// Reasons lists all of them in the order of their documentation.
var Reasons = []Reason{
	ReasonTokenMissing, ReasonTokenUnknown, ReasonTokenExpired, ReasonTokenRevoked, ReasonTokenUnbound, ReasonWrongService,
	ReasonKeyMissing, ReasonKeyUnknown, ReasonKeyExpired, ReasonKeyRevoked, ReasonKeyDuplicate,
	ReasonOtherConsumer, ReasonAnonymousMissing, ReasonTerminated, ReasonProtocol,
	ReasonAuthorityAway, ReasonRecordUnusable, ReasonChainBroken, ReasonFilterFailed,
	ReasonBodyBudget, ReasonBodyDeadline, ReasonNoOAuthRoute, ReasonUndecided,
	ReasonNoRoute, ReasonNoService, ReasonMisconfigured, ReasonHTTPSRequired, ReasonMethod, ReasonPath,
	ReasonNoPermission, ReasonFaultInjected, ReasonNoEndpoint, ReasonOverflow, ReasonConnectFailed, ReasonTimeout, ReasonReset,
}

// MetadataNamespace is where the filter and the routes of a proxy say what became
// of a request, for its access log: dynamic metadata of the request where the
// filter has decided against it, metadata of the route otherwise.
const MetadataNamespace = FilterName

// Keys in [MetadataNamespace]. Routes and services are told by their names, or by
// their ids if they have none.
const (
	MetaDecision  = "decision"
	MetaReason    = "reason"
	MetaRoute     = "route"
	MetaRouteID   = "route_id"
	MetaService   = "service"
	MetaServiceID = "service_id"
	// The keys below are the filter's alone, on requests that it refused: who asked,
	// as far as that is known.
	MetaConsumer    = "consumer"
	MetaConsumerID  = "consumer_id"
	MetaApplication = "application"
)
