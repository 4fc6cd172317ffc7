package sqlstore

// SealedBy returns options of a store that seals so many rows anew in one transaction:
// few rows are several pages then.
func (o Options) SealedBy(rows int) Options {
	o.page = rows
	return o
}
