package recall

// MaxAnswers is the bound of the answers that are kept.
const MaxAnswers = maxAnswers

// Answers returns how many answers are kept.
func (c *Cache) Answers() int {
	c.mu.Lock()
	m := c.memory
	c.mu.Unlock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.answers)
}
