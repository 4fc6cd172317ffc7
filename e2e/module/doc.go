// Package module tests the filter as a dynamic module in a real Envoy with a real
// Redis and no control plane: the configuration that ships as envoy.yaml, the
// behaviour that every adapter shares, and what only a real Envoy can show
// (cancelled requests, panics, a Redis that stands still, closed pipes).
//
// Envoy is taken from ENVOY_PATH, else from .tools/envoy below the repository's
// root; redis-server and a C compiler from PATH.
package module
