// Package adminlink lets the control plane read the administration interface of a
// proxy's Envoy, which listens on a Unix socket that nobody else can reach.
//
// The agent of the proxy opens one connection to the data-plane server: an
// HTTP/1.1 request "GET /admin-link" over TLS with "Upgrade: meshgate-admin", its
// node id in "X-Meshgate-Node" and "Authorization: Bearer <node token>", answered
// 101 (RFC 9110 section 7.8). Then the control plane asks and the agent answers,
// in frames: uint32 big-endian length of what follows, one type byte, uint64
// number of the question, body. A body comes in chunks. Both sides allow only a
// list of paths; none changes anything in Envoy. One asks the agent to take a new
// token ([RenewPath]), one to trust other roots ([RootsPath]). One question is open at a time.
//
// The control plane pings every 15 seconds. The agent looks then, as whoever asks for its
// /ready has it look, and its pong says what is the matter ([Report]): of an Envoy that
// hangs there is no other word, because its silence is no event, and its agent goes on
// answering for it. The body of a ping asks for a report as JSON. Agents of before do not
// read it, and control planes of before send none: then the pong has the trouble of the
// Envoy alone, as text.
package adminlink
