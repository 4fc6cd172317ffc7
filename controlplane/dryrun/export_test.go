package dryrun

// Planning has fn called when a write is undone, before anything is planned.
func (r *Runner) Planning(fn func()) { r.planning = fn }
