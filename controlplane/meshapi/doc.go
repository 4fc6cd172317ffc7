// Package meshapi is the mesh API (requirement "Mesh Control-Plane HTTP API"): the documents
// of the mesh under /meshes, the state of proxies, tokens for proxies, and the progress of a
// revision.
//
// A kind with a [model.Document] is one entry of [Options].Kinds. Its routes, list, filters,
// errors and its line at /policies follow from it. All routes of the API are one slice, see
// [API.Endpoints], each with a declared authorisation.
//
// A request is checked in this order, whatever else is wrong with it: the caller (401, on
// unknown paths too), path and method (404 and 405 as text), the permission of the caller
// (403), and media types (415 and 406 as text). Then the handler runs. A PUT checks the mesh
// (404), the document (400), its spec (400), its names and labels (400, all at once), and
// other resources (400). A list checks size, filters, mesh and offset.
package meshapi
