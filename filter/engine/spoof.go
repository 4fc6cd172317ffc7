package engine

import "github.com/meshgate/meshgate/filter/contract"

// Spoofs reports whether a request header, by its lower-case name, could pass
// for one that only a gateway may set; handingOver says that the request goes to
// the OAuth server, which reads contract.HeaderOAuthProto as the listener wrote
// it. Adapters remove such headers unless the listener already has.
func Spoofs(name []byte, handingOver bool) bool { return contract.IsReserved(name, handingOver) }
