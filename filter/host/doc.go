// Package host is what every way into Envoy (an adapter) needs besides the decision itself,
// independent of how Envoy calls it. A [Host] keeps
//
//   - the token caches, one for each set of settings. Listeners with the same settings
//     share one. It is opened when the first chain arrives;
//   - the compiled programs of chains, each once;
//   - the look-ups in progress. Each ends exactly once: with an answer, at its
//     deadline, or when its request has gone.
//
// All of them are named by handles, small integers that code outside Go may keep. Handle 0
// names nothing. A request with a handle that names nothing is refused.
//
// Every entry and every goroutine recovers panics, logs them, and then refuses.
//
// Package filter describes how an adapter uses it.
package host
