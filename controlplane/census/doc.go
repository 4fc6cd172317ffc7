// Package census counts what meshes consist of: dataplanes by state and type, services, policies,
// versions, zones. The mesh API shows the counts as insights (requirement "Insights").
//
// Everything is listed once, when the census starts. Afterwards each change of the store and each
// change of what is known about a proxy replaces what one resource adds to the counts: its share.
// A share depends on nothing but the resource and what is known about its proxy, so the order in
// which changes arrive does not matter, and a change that arrives twice changes nothing.
//
// Readers get an immutable [State] and take no lock. [Census.Now] returns one that counts
// everything that had happened when it was called.
package census
