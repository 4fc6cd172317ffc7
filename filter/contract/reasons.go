package contract

// Decision says in one word what became of a request. The words are stable, because logs and
// metrics contain them.
type Decision string

// Decisions.
const (
	// Allowed: every plugin of the route has let the request pass.
	Allowed Decision = "allowed"
	// Refused: the proxy has answered in place of the service.
	Refused Decision = "refused"
	// Issued: the request went to the OAuth server.
	Issued Decision = "issued"
	// Undecided: nothing had to be decided, or the request ended before the decision.
	Undecided Decision = "none"
)

// Reason says why a request was refused. It is for logs and metrics and never for the
// client, which must not learn from an answer whether a guess came close.
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
	ReasonRouteUnmarked    Reason = "route_unmarked"
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

// Reasons of sidecars, in addition to those of the filter.
const (
	ReasonNoPermission  Reason = "no_permission"
	ReasonFaultInjected Reason = "fault_injected"
	ReasonNoEndpoint    Reason = "no_endpoint"
	ReasonOverflow      Reason = "overflow"
	ReasonConnectFailed Reason = "connect_failed"
	ReasonTimeout       Reason = "timeout"
	ReasonReset         Reason = "reset"
)

// Reasons lists all reasons in the order of their documentation.
var Reasons = []Reason{
	ReasonTokenMissing, ReasonTokenUnknown, ReasonTokenExpired, ReasonTokenRevoked, ReasonTokenUnbound, ReasonWrongService,
	ReasonKeyMissing, ReasonKeyUnknown, ReasonKeyExpired, ReasonKeyRevoked, ReasonKeyDuplicate,
	ReasonOtherConsumer, ReasonAnonymousMissing, ReasonTerminated, ReasonProtocol,
	ReasonAuthorityAway, ReasonRecordUnusable, ReasonChainBroken, ReasonFilterFailed, ReasonRouteUnmarked,
	ReasonBodyBudget, ReasonBodyDeadline, ReasonNoOAuthRoute, ReasonUndecided,
	ReasonNoRoute, ReasonNoService, ReasonMisconfigured, ReasonHTTPSRequired, ReasonMethod, ReasonPath,
	ReasonNoPermission, ReasonFaultInjected, ReasonNoEndpoint, ReasonOverflow, ReasonConnectFailed, ReasonTimeout, ReasonReset,
}

// MetadataNamespace is where the filter and the routes of a proxy record what became of a
// request, for the access log. It is dynamic metadata of the request if the filter has
// refused it, and metadata of the route otherwise.
const MetadataNamespace = FilterName

// Keys in [MetadataNamespace]. Routes and services are named by their names, and by their
// ids if they have no name.
const (
	MetaDecision  = "decision"
	MetaReason    = "reason"
	MetaRoute     = "route"
	MetaRouteID   = "route_id"
	MetaService   = "service"
	MetaServiceID = "service_id"
	// MetaFilter is not for the log: there a route says to the filter what [Carried] holds, or
	// [NoChain].
	MetaFilter = "filter"
	// Only the filter sets the keys below, on requests that it refused. They say who asked,
	// as far as this is known.
	MetaConsumer    = "consumer"
	MetaConsumerID  = "consumer_id"
	MetaApplication = "application"
)
