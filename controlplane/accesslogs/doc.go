// Package accesslogs receives the lines of a proxy's access logs from its Envoy and writes them
// where they belong: to files of the machine, and to servers that take lines over TCP.
//
// Envoy calls it with OTLP over a Unix socket. Each line comes with the name of a sink, and is
// dropped unless the configuration that the agent has relayed describes that sink. A sink is a
// file below the directories that the agent was started with, or an address that its machine may
// lead to; anything else is a problem for operators.
//
// Nothing here waits for a sink: each has a queue that is bounded in bytes, and one goroutine
// that writes it. What does not fit is dropped and counted. A sink that fails is tried again, with
// growing pauses, for as long as there is something to write to it.
package accesslogs
