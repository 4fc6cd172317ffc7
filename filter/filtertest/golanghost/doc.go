// Package golanghost runs the library of Envoy's contrib filter (filter/golang) without an
// Envoy: in a program in C that stands in its place, testdata/host.c. Its tests are those of
// the library.
package golanghost
