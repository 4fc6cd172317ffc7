// Package redisconn makes clients of Redis, for the control plane, which writes, and for the
// filter, which reads. It supports every kind of address ([Open]) and tells which servers a
// client talks to ([Server]).
//
// A client of this package
//
//   - obeys the context of each call, and asks a server only once, so that a slow
//     answer is never the sum of several attempts;
//   - owns its dials: Close ends them and waits for them;
//   - reads the file of certificates for each connection, so that a new file
//     needs no restart;
//   - refuses an answer that claims to be larger than anything that is stored, so
//     that a server cannot exhaust the memory of its readers;
//   - accepts no more addresses from a cluster than a cluster has nodes;
//   - gives each command of a pipeline that was not sent an error, so that it does
//     not look like a read of an absent key;
//   - never quotes a URL in an error, because URLs contain passwords;
//   - prints nothing by itself ([LogTo]).
//
// Clusters are the exception to the first rule. Their client follows at most three
// redirections, and may ask again after a broken connection, within the context of the call.
package redisconn
