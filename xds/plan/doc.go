// Package plan holds what all plans share: memoised cells, deterministic
// packing and the one configuration source that every resource names.
//
// A plan is a pure function from a view and a proxy's parameters to a
// [resource.Set]. It is made of cells; a cell's builder reads nothing but the
// key it is memoised by, so an untouched key can never yield other bytes, and a
// failing cell concerns one resource only.
package plan
