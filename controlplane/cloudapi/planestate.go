package cloudapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The states of a group.
const (
	stateOK       = "OK"
	stateConflict = "CONFLICT"
	stateUnknown  = "UNKNOWN"
)

// maxConflicts bounds the conflicts that a status lists.
const maxConflicts = 256

// stateEndpoints lists the endpoints that say how a control plane is.
func (p planes) stateEndpoints(item string) []httpkit.Endpoint {
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item + "/group-member-status", Auth: access.Read, Summary: "Whether a control plane is a member of a group", Handler: p.memberStatus}, "", http.StatusOK, schemaMemberStatus),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item + "/group-status", Auth: access.Read, Summary: "Whether members of a group are in conflict", Handler: p.groupStatus}, "", http.StatusOK, schemaGroupStatus),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item + "/nodes", Auth: access.Read, Summary: "List the data plane nodes of a control plane", Handler: p.nodes}, "", http.StatusOK, schemaNodes, paramSize, paramNumber),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: item + "/expected-config-hash", Auth: access.Read, Summary: "The hash of what all nodes should have", Handler: p.expected}, "", http.StatusOK, schemaHash),
	}
}

func (p planes) memberStatus(w http.ResponseWriter, r *http.Request) {
	var of []*model.Resource
	err := p.view(r, func(reader store.Reader, plane *model.Resource) (err error) {
		of, err = reader.List(cloud.Groups, store.Query{Index: cloud.IndexMembers, Value: plane.Name})
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	p.reply(w, r, http.StatusOK, map[string]any{"is_member": len(of) > 0})
}

// groupStatus says whether members of a group are in conflict. That is known once a gateway of the
// group was connected, of what is stored once it was compared.
func (p planes) groupStatus(w http.ResponseWriter, r *http.Request) {
	doc := map[string]any{"id": p.address(r).Key, "state": stateUnknown, "conflicts": []clashing{}}
	err := enterComparison(r.Context())
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	defer comparisons.Leave()
	err = p.view(r, func(reader store.Reader, plane *model.Resource) error {
		if err := isGroup(reader, plane); err != nil {
			return err
		}
		row, err := reader.Get(cloud.Groups, "", plane.Name)
		if err != nil {
			return err
		}
		doc["created_at"], doc["updated_at"] = stamp(row.Created), stamp(row.Modified)
		clashes, complete, err := p.clashes(reader, plane)
		switch {
		case len(clashes) > 0:
			doc["state"], doc["conflicts"] = stateConflict, p.conflicts(r, reader, clashes)
		case complete:
			doc["state"] = stateOK
		}
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	p.reply(w, r, http.StatusOK, map[string]any{"item": doc})
}

// clashes lists what is left out of a group, credentials among it. It is not complete while what is stored is not, or cannot be, compared.
func (p planes) clashes(reader store.Reader, plane *model.Resource) (list []scopes.Clash, complete bool, err error) {
	if p.api.Planes.Fleet == nil {
		return nil, false, nil
	}
	want, err := expects(reader, plane)
	if err != nil {
		return nil, false, err
	}
	list, revision, known := p.api.Planes.Fleet.LeftOut(plane.Name)
	if !known || revision < want.revision {
		return nil, false, nil
	}
	src, err := (cloud.Resolver{}).Resolve(reader, cloud.ScopeOf(plane.Name))
	if err != nil {
		return nil, false, err
	}
	credentials, complete, err := credentialClashes(reader, src)
	return append(list, credentials...), complete, err
}

// clashing is one side of a conflict.
type clashing struct {
	ClusterID   string   `json:"cluster_id"`
	Description string   `json:"description"`
	Resource    resource `json:"resource"`
}

type resource struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// conflicts lists both sides of each clash, once each. What belongs to a member that the caller may
// not read is not named: its side is left out.
func (p planes) conflicts(r *http.Request, reader store.Reader, clashes []scopes.Clash) []clashing {
	out := []clashing{}
	seen := map[model.Key]bool{}
	for _, c := range clashes {
		for _, key := range []model.Key{c.Left, c.Rival} {
			in := access.Scope{ControlPlane: key.Scope}
			if seen[key] || len(out) >= maxConflicts || !p.api.Rules.Decide(httpkit.CallerOf(r), access.Read, in).Allowed {
				continue
			}
			seen[key] = true
			out = append(out, clashing{
				ClusterID: cloud.IDOf(key.Scope), Resource: resource{key.Name, key.Kind},
				Description: fmt.Sprintf("conflicting entity found: ID=%s, Name=%s", key.Name, p.titleOf(reader, key)),
			})
		}
	}
	return out
}

// titleOf is what people call an entity; its id if nothing else. Views may be ahead of the state, so
// it may be gone.
func (p planes) titleOf(reader store.Reader, key model.Key) string {
	for _, k := range p.api.Gate.Kinds() {
		if k.Name != key.Kind {
			continue
		}
		res, err := reader.Get(k, key.Scope, key.Name)
		if err != nil {
			break
		}
		entity, err := res.Entity()
		if err != nil {
			break
		}
		for _, name := range []string{"name", "username", "custom_id"} {
			if text, _ := entity[name].(string); text != "" {
				return text
			}
		}
	}
	return key.Name
}

// node is a gateway as the list of nodes shows it.
type node struct {
	ID            string        `json:"id"`
	Hostname      string        `json:"hostname"`
	Version       string        `json:"version"`
	LastPing      int64         `json:"last_ping"`
	ConfigHash    string        `json:"config_hash"`
	CreatedAt     int64         `json:"created_at"`
	UpdatedAt     int64         `json:"updated_at"`
	Type          string        `json:"type"`
	Compatibility compatibility `json:"compatibility_status"`
}

type compatibility struct {
	State  string   `json:"state"`
	Issues []string `json:"issues,omitempty"`
}

// nodes lists the nodes of a control plane. Who is connected is known by its streams, so it was seen
// now. A node was created when it was seen first.
func (p planes) nodes(w http.ResponseWriter, r *http.Request) {
	items := []node{}
	var want expectation
	err := p.view(r, func(reader store.Reader, plane *model.Resource) (err error) {
		want, err = expects(reader, plane)
		return err
	})
	if err == nil && p.api.Planes.Fleet != nil {
		for _, n := range p.api.Planes.Fleet.Gateways(p.scope(r)) {
			items = append(items, p.node(n, want))
		}
	}
	size, number := maxSize, 1
	if err == nil {
		size, number, err = pages(r)
	}
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	first := min((number-1)*size, len(items))
	page := map[string]any{"total_count": len(items)}
	if first+size < len(items) {
		page["next"] = next(r, number, size)
	}
	p.reply(w, r, http.StatusOK, map[string]any{"items": items[first:min(first+size, len(items))], "page": page})
}

// pages reads which page of nodes is wanted.
func pages(r *http.Request) (size, at int, err error) {
	query, err := httpkit.Query(r)
	size, at = maxSize, 1
	if err == nil {
		err = readQuery(query, among(map[string]parameter{argSize: numeric(maxSize, &size), argNumber: numeric(1<<20, &at)}))
	}
	return size, at, err
}

// These are said of nodes in place of texts that may name entities of members that the caller may not read:
// of what the gateways of groups refuse, and of what is not applied.
const (
	textRejected  = "the gateway refuses some of the configuration, and has the last one that it took"
	textUnapplied = "some of the configuration is not applied as it is: it is left out, or its last good version is kept"
)

func (p planes) node(n nodes.Node, want expectation) node {
	at := p.api.Now().Unix()
	var since int64
	if n.Since != nil {
		since = n.Since.Unix()
	}
	if n.State != insight.Connected {
		at = since
	}
	hash := want.hash
	if !want.metBy(n) {
		hash = digest(n.Name, fmt.Sprint(n.Revisions.Acknowledged))
	}
	created := since
	if n.First != nil {
		created = n.First.Unix()
	}
	out := node{
		ID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(n.Name)).String(), Hostname: n.Name[strings.LastIndexByte(n.Name, '/')+1:], Version: n.Versions.Agent,
		LastPing: at, ConfigHash: hash, CreatedAt: created, UpdatedAt: at, Type: "gateway-" + n.State,
		Compatibility: compatibility{State: "COMPATIBILITY_STATE_FULLY_COMPATIBLE"},
	}
	for _, rejected := range n.Rejected {
		text := fmt.Sprintf("%v", rejected)
		if want.union {
			text = textRejected
		}
		out.Compatibility.Issues = append(out.Compatibility.Issues, text)
	}
	if len(n.Problems) > 0 {
		out.Compatibility.Issues = append(out.Compatibility.Issues, textUnapplied)
	}
	if len(out.Compatibility.Issues) > 0 {
		out.Compatibility.State = "COMPATIBILITY_STATE_INCOMPATIBLE"
	}
	return out
}

func (p planes) expected(w http.ResponseWriter, r *http.Request) {
	doc := map[string]any{}
	err := p.view(r, func(reader store.Reader, plane *model.Resource) error {
		want, err := expects(reader, plane)
		doc["expected_hash"], doc["created_at"], doc["updated_at"] = want.hash, stamp(plane.Created), stamp(want.at)
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	p.reply(w, r, http.StatusOK, doc)
}

// expectation is what the nodes of a control plane should have.
type expectation struct {
	hash string
	// at is when that became so, and revision the one with which it did.
	at       time.Time
	revision uint64
	// union says that it is of several members.
	union bool
}

// metBy reports whether a node has all of it. One that is in step has answered what was published;
// what is stored may not be published yet, or cannot be.
func (e expectation) metBy(n nodes.Node) bool {
	return n.InStep && n.Revisions.Desired >= e.revision && len(n.Problems) == 0
}

// since notes a change.
func (e *expectation) since(at time.Time, revision uint64) {
	if at.After(e.at) {
		e.at = at
	}
	e.revision = max(e.revision, revision)
}

// expects reads what the nodes of a control plane should have. It follows from the newest changes of
// all members, and from who they are.
func expects(reader store.Reader, plane *model.Resource) (e expectation, err error) {
	src, err := (cloud.Resolver{}).Resolve(reader, cloud.ScopeOf(plane.Name))
	if err != nil {
		return e, err
	}
	e.at, e.union = plane.Created, plane.Spec.(*cloud.ControlPlane).IsGroup()
	parts := []string{plane.Name}
	for _, scope := range src.Scopes() {
		newest, err := cloud.StandingOf(reader, scope)
		if err != nil {
			return e, err
		}
		var revision uint64
		var at time.Time
		if newest != nil {
			revision, at = newest.Revision, latest(newest.Created, newest.Modified)
			e.since(at, revision)
		}
		// A store that was restored from a backup counts on from its revision, so one number may
		// stand for two changes. These have different times.
		parts = append(parts, scope, fmt.Sprint(revision), fmt.Sprint(at.UnixNano()))
	}
	row, err := reader.Get(cloud.Groups, "", plane.Name)
	switch {
	case err == nil:
		e.since(latest(row.Created, row.Modified), row.Revision)
	case fault.Is(err, fault.NotFound):
		err = nil
	}
	e.hash = digest(parts...)
	return e, err
}

// digest is a hash of texts in the length that nodes report.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}
