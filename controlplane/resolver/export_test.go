package resolver

// Answer is for fuzzing.
var Answer = answer
