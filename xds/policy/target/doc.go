// Package target is what policies share that say themselves whom they are for: a target, the
// proxies for which a policy is, and items of from (those who call them) and to (what they
// call).
//
// All policies whose target matches a place count there. [Order] tells how strong each is: the
// kind of its target, from Mesh over MeshSubset and MeshService to MeshServiceSubset, then more
// tags, then the later created, then the first by name. [Entries] puts the items of all of them
// one after another, the weakest policy first, the items of one in their order. What holds for
// somebody is made from the entries that match, each over the ones before it ([For]).
//
// [Rules] divides everybody into disjoint subsets with what holds for each. This is for
// readers: a proxy may have several values of one tag, because its certificate has the tags of
// all its inbounds, and then it is in several subsets. What is enforced goes by the entries:
// the strongest one that matches decides.
package target
