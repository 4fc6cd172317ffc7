package sqlstore

// SealedBy returns options of a store that seals only this many rows anew in one transaction,
// so that few rows make several pages.
func (o Options) SealedBy(rows int) Options {
	o.page = rows
	return o
}
