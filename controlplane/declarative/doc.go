// Package declarative reads all entities of a control plane from one file, in the format of
// the declarative tools for such gateways, and makes the store hold exactly these entities.
// In this way a gateway runs without a database: the file is the source of truth, and the
// administration API only shows it.
//
// A file is read in steps. Each step reports all problems with their lines: the text and its
// shape ([Parse]), each entity by the schema of its kind, references and unique values
// ([File.Resolve]), and finally, in the transaction that also writes, entities against each
// other ([File.Apply]).
//
// Entities without an id get one that is derived from what makes them unique, so that the
// same file results in the same ids on every start.
//
// Source: requirement "The plugin needs a database".
package declarative
