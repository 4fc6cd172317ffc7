// Package draft contains pieces of a proxy's configuration while they are being made: typed
// protos that policies edit in place, and HTTP filters in named slots. Nothing is packed into
// an Any yet. A piece becomes immutable once every policy has edited it.
//
// Drafts exist only inside the builder of one cell. A policy sees one cluster, one listener or
// one route table, never a whole proxy, so its edits depend on nothing but the key of the
// cell.
package draft
