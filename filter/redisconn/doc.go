// Package redisconn makes clients of Redis, for the control plane, which
// writes, and for the filter, which reads. It knows every kind of address
// ([Open]), and says which servers a client talks to ([Server]).
//
// A client of this package
//
//   - obeys the context of each call, and asks a server once: what looks like a
//     slow answer must not be the sum of several;
//   - owns its dials: Close ends them and waits for them;
//   - reads the file of certificates for each connection, so that a new one
//     needs no restart;
//   - takes no answer that claims to be larger than anything that is stored, so
//     that a server cannot exhaust the memory of its readers;
//   - takes no more addresses from a cluster than a cluster has nodes;
//   - gives each command of a pipeline that was not sent an error, so that it is
//     not taken for one whose key is absent;
//   - never quotes a URL in an error, for URLs hold passwords;
//   - prints nothing by itself ([LogTo]).
//
// A cluster is the exception to the first rule: its client follows at most three
// redirections, and may ask a second time where a connection broke, within the
// context of the call.
package redisconn
