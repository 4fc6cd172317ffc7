// Package golanghost runs the libraries of Envoy's contrib filter (filter/golang) without an
// Envoy: in a program in C that stands in its place, testdata/host.c. Its tests are those of
// both builds: through the official interface alone, and with the front in C before it.
package golanghost
