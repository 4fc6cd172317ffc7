// Package plan contains what all plans share: memoised cells, deterministic encoding, and the
// one configuration source that every resource names.
//
// A plan is a pure function from a view and the parameters of a proxy to a [resource.Set]. It
// consists of cells. The builder of a cell reads only the key by which the cell is memoised,
// so an unchanged key can never yield other bytes, and a failing cell affects only one
// resource.
package plan
