// Package inspect answers questions about configuration and what proxies have of it. It only
// reads.
package inspect
