package recall

import "github.com/meshgate/meshgate/controlplane/model"

// The bounds of what is kept.
const (
	MaxAnswers = maxAnswers
	MaxBytes   = maxBytes
	MaxAnswer  = maxAnswer
)

// Answers returns how many answers are kept, and what they occupy, added up anew.
func (c *Cache) Answers() (n, bytes int) {
	c.mu.Lock()
	m := c.memory
	c.mu.Unlock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	for q, a := range m.answers {
		bytes += occupied(&q, &a)
	}
	return len(m.answers), bytes
}

// Occupied is the estimate of what a row occupies that is asked for by its name.
func Occupied(r *model.Resource) int {
	q, a := byName(r.Kind, r.Scope, r.Name), answer{list: []*model.Resource{r}}
	return occupied(&q, &a)
}
