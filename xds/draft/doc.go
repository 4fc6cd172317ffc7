// Package draft holds pieces of a proxy's configuration while they are open:
// typed protos that policies edit in place, HTTP filters in named slots, nothing
// packed into an Any yet. A piece is frozen once every policy has had its turn.
//
// Drafts live inside the builder of one cell: a policy sees one cluster, one
// listener or one route table, never a whole proxy, so that what it does depends
// on the key of the cell and on nothing else.
package draft
