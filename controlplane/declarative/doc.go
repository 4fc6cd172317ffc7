// Package declarative reads all entities of a control plane from one file, in
// the format of the declarative tools for such gateways, and makes the store
// hold exactly them. It is how a gateway runs without a database: the file is
// the truth, and the administration API only shows it.
//
// A file is read in steps, each of which reports everything that is wrong with
// the line it stands on: the text ([Parse]), its shape, each entity by the
// schema of its kind, references and unique values ([File.Resolve]), and last, in
// the one transaction that also writes, entities against each other
// ([File.Apply]).
//
// Entities without an id get one that follows from what makes them unique, so
// that the same file gives the same ids on every start.
//
// Source: requirement "The plugin needs a database".
package declarative
