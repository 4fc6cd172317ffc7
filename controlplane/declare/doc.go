// Package declare is the declarative tool: it makes what a gateway or the meshes of a control
// plane hold agree with files, and writes files from what they hold. It is a client of the
// APIs, so it runs anywhere.
//
// A run has these steps. The files become a [Document]; what the control plane holds becomes a
// [State]. Entities are matched by their names, not by their ids, and completed with the
// defaults in the control plane's schemas. What differs becomes the operations of a [Plan],
// which are shown, or carried out: creations and updates from what is referred to down to what
// refers, then deletions the other way.
//
// A plan never shows a secret. Whatever the API fills in by itself does not count as a
// difference, so that a second run finds nothing to do.
//
// Source: requirement "Migration rules".
package declare
