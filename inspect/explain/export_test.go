package explain

// Key tells which requests a limit counts together.
func Key(s *Step) string { return s.key }
