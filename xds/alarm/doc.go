// Package alarm waits for moments of the wall clock, such as the end of a token or
// the renewal of a certificate.
//
// A timer of Go cannot do that alone. It counts the time that the host is awake:
// it stands still while the host sleeps or its machine is paused, and does not
// hear that somebody has set the clock. A certificate that is to be renewed in 16
// hours would run out on a host that slept for ten of them.
//
// So an alarm never trusts a timer for longer than Slice: it then compares its
// moment with the wall clock and arms the timer again. It is never late by more
// than a Slice of waking time. A file descriptor that the kernel wakes when the
// clock is set (timerfd with TFD_TIMER_CANCEL_ON_SET) would be exact, but exists
// on Linux only, says nothing of a virtual machine that was paused, and cannot be
// tried without setting the clock of the host.
package alarm
