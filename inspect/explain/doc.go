// Package explain says what becomes of one imagined request in a mesh, or at a gateway, and which
// resource decides at each step. It follows what the proxies were sent (package interpret), so it
// says what they do and not what somebody meant; and it names the resources by the selection that
// the planner uses.
package explain
