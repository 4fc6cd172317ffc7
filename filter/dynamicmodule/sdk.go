//go:build abicheck

package main

// Keeps Envoy's SDK in go.mod: abi_test.go compiles abi.h against its header. The tag is
// never set, so the SDK is never built.
import _ "github.com/envoyproxy/envoy/source/extensions/dynamic_modules/abi"
