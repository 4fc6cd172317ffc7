// Package adminlink lets the control plane read the administration interface of a proxy's
// Envoy, which only the proxy's machine can reach.
//
// The agent of the proxy opens one connection to the data-plane server. It sends the
// HTTP/1.1 request "GET /admin-link" over TLS with "Upgrade: meshgate-admin", its node id
// in "X-Meshgate-Node" and "Authorization: Bearer <node token>", and is answered 101 (RFC
// 9110 section 7.8). Then the control plane asks and the agent answers, in frames: uint32
// big-endian length of the rest, one type byte, uint64 number of the question, body. A body
// comes in chunks. Both sides allow only a list of paths; none changes anything in Envoy.
// One path asks the agent to take a new token ([RenewPath]), and one to trust other roots
// ([RootsPath]). Only one question is open at a time.
//
// The control plane pings every 15 seconds. The agent then checks its proxy, as it does for
// a request to its /ready, and its pong reports problems ([Report]). This is the only
// report of an Envoy that hangs: its silence causes no event, and its agent stays connected
// for it. The body of a ping asks for a report as JSON. Older agents do not read it, and
// older control planes send none. In these cases the pong contains only the trouble of the
// Envoy, as text.
package adminlink
