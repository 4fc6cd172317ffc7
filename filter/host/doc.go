// Package host is what every way into Envoy (an adapter) needs besides the decision
// itself, and what does not depend on how Envoy calls it. A [Host] keeps
//
//   - the token caches, one for each set of settings, shared by the listeners that have
//     them, and opened when the first chain arrives;
//   - the compiled programs of chains, each once;
//   - the look-ups on their way, each of which ends exactly once: with an answer, at its
//     deadline, or when its request has gone.
//
// All of them are named by handles, small integers that code outside Go may keep. Handle
// 0 names nothing. A handle that names nothing refuses.
//
// Every entry and every goroutine recovers panics, logs them, and then refuses.
//
// Package filter describes how an adapter uses it.
package host
