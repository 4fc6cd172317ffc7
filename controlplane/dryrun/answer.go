package dryrun

import (
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The verdicts. Unchanged means that what is stored would stay as it is, even if the real write
// takes a revision.
const (
	Created   = "created"
	Updated   = "updated"
	Deleted   = "deleted"
	Unchanged = "unchanged"
)

// Answer is the answer to a dry run, the same in both APIs. Everything in it is bounded; Cut says
// what is left out. It has no secrets. What the control plane makes at random, such as ids, is
// made anew by the real write.
type Answer struct {
	// DryRun is always true: nothing was written.
	DryRun  bool   `json:"dryRun" jsonschema:"enum=true"`
	Verdict string `json:"verdict" jsonschema:"enum=created,enum=updated,enum=deleted,enum=unchanged"`
	// Revision is the newest one of the store, on which the answer is based.
	Revision uint64 `json:"revision"`
	// Document is what would be stored of a document of the mesh API, with everything by which the
	// control plane completes it, as a GET shows it to somebody who may not read secrets.
	Document json.RawMessage `json:"document,omitempty" jsonschema:"type=object"`
	// Withheld says what the caller may not see. Writes, changes, problems and follows are then
	// empty.
	Withheld string `json:"withheld,omitempty"`
	Nodes    Counts `json:"nodes"`
	// Writes is everything that would be written, as GET /changes would show it.
	Writes []Write `json:"writes"`
	// Changes are grouped: nodes for which the same becomes of the same resources are together.
	Changes []Change `json:"changes"`
	// Problems are what would not be as configured after the write, those that are new first.
	Problems []Problem `json:"problems"`
	// Follows says what the control plane would do by itself after the write. That is not in
	// changes.
	Follows []string `json:"follows,omitempty"`
	// Warnings are those of the real write.
	Warnings []string `json:"warnings,omitempty"`
	Cut      *Cut     `json:"cut,omitempty"`
}

// Counts are numbers of connected nodes.
type Counts struct {
	Compared int `json:"compared" jsonschema:"minimum=0"`
	Changed  int `json:"changed" jsonschema:"minimum=0"`
	// Uncertain nodes may get something else than changes says, or something although it says
	// nothing: they have something of which only the last good version is left, or get it, and
	// what becomes of that only the real write shows.
	Uncertain int `json:"uncertain,omitempty" jsonschema:"minimum=0"`
	// Omitted nodes belong to what the write concerns, too, but there are too many.
	Omitted int `json:"omitted" jsonschema:"minimum=0"`
}

// Write is one resource that would be written.
type Write struct {
	Action store.Op `json:"action" jsonschema:"enum=created,enum=updated,enum=deleted"`
	changes.Resource
	Title   string            `json:"title,omitempty"`
	Count   int               `json:"count,omitempty" jsonschema:"minimum=0"`
	Cause   *changes.Resource `json:"cause,omitempty"`
	Members []store.Member    `json:"members"`
	More    int               `json:"more,omitempty" jsonschema:"minimum=0"`
}

// Change is what becomes of the resources of some nodes.
type Change struct {
	// Nodes are the first of them by name, Count says how many they are.
	Nodes []string `json:"nodes"`
	Count int      `json:"count" jsonschema:"minimum=1"`
	// Kind is sidecar, gateway, or ingress or egress of the zone.
	Kind string `json:"kind" jsonschema:"enum=sidecar,enum=gateway,enum=ingress,enum=egress"`
	// Uncertain says that all of the nodes are; see Counts.
	Uncertain bool `json:"uncertain,omitempty"`
	// Resources are ordered by type, as types are sent, and by name.
	Resources []Resource `json:"resources"`
}

// Resource is what becomes of one resource.
type Resource struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Change string `json:"change" jsonschema:"enum=added,enum=removed,enum=changed"`
	// Diff is the JSON patch (RFC 6902) that makes the resource into what it would be. It
	// begins at the resource: an empty path stands for the whole of it. It is empty if only
	// concealed values differ, and if Cut is set.
	Diff []nodes.Edit `json:"diff,omitempty"`
	Cut  bool         `json:"cut,omitempty"`
}

// Problem is something that would not be as configured.
type Problem struct {
	// Mesh and ControlPlane are both missing for what proxies of the zone have.
	Mesh         string `json:"mesh,omitempty"`
	ControlPlane string `json:"controlPlane,omitempty"`
	// Resource names what cannot be made, such as "route <id>".
	Resource string `json:"resource"`
	Error    string `json:"error"`
	// Kept says that nodes would keep the last good version. Otherwise the part is left out,
	// or refuses everything where its absence would open something.
	Kept bool `json:"kept,omitempty"`
	// Already says that it is so without the write, too.
	Already bool `json:"already,omitempty"`
	// Awaited says that everything is made as configured, but leads nowhere at present.
	Awaited bool `json:"awaited,omitempty"`
	// Nodes is how many of the compared nodes have the problem; 0 if it is one of the whole.
	Nodes int `json:"nodes" jsonschema:"minimum=0"`
}

// Cut counts what was left out.
type Cut struct {
	// Differences were left out because the answer would be too large, or take too long.
	Differences int `json:"differences,omitempty" jsonschema:"minimum=0"`
	// Resources, names of nodes, problems and writes that are not listed.
	Resources int `json:"resources,omitempty" jsonschema:"minimum=0"`
	Nodes     int `json:"nodes,omitempty" jsonschema:"minimum=0"`
	Problems  int `json:"problems,omitempty" jsonschema:"minimum=0"`
	Writes    int `json:"writes,omitempty" jsonschema:"minimum=0"`
}
