// Package logging is what policies share that make proxies log requests and connections: how a
// format becomes a logger of Envoy, and where the lines go.
//
// Envoy's logger for OTLP formats a line and sends it to the agent of its machine, with the name
// of its sink (package logsink). Envoy itself opens neither files nor connections for a log, and
// what it cannot send it drops: requests never wait for their log.
package logging
