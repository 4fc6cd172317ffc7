// Package meshapi is the mesh API (requirement "Mesh Control-Plane HTTP API"):
// the documents of the mesh under /meshes, what proxies are doing, tokens for
// proxies, and how far a revision has come.
//
// A kind with a [model.Document] is one entry of [Options].Kinds; its routes,
// list, filters, errors and its line at /policies follow from it. All routes of
// the API are one slice, see [API.Endpoints], each with a declared
// authorisation.
//
// A request is answered in this order, whatever else is wrong with it: who is
// calling (401, on unknown paths too), path and method (404 and 405 as text),
// whether the caller may call that (403), media types (415 and 406 as text), then
// the handler. A PUT looks at the mesh (404), the document (400), its spec (400),
// its names and labels (400, all at once), and other resources (400). A list looks
// at size, filters, mesh and offset.
package meshapi
