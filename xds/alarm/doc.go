// Package alarm waits for moments of the wall clock, such as the expiry of a token or the
// renewal of a certificate.
//
// A timer of Go alone cannot do that. It counts the time that the host is awake: it stands
// still while the host sleeps or its virtual machine is paused, and does not notice that
// somebody has set the clock. A certificate that is to be renewed in 16 hours would expire on
// a host that slept for ten of them.
//
// So an alarm never trusts a timer for longer than Slice. It then compares its moment with the
// wall clock and starts the timer again. It is never late by more than a Slice of waking time.
// A file descriptor that the kernel wakes when the clock is set (timerfd with
// TFD_TIMER_CANCEL_ON_SET) would be exact. But it exists only on Linux, does not notice that a
// virtual machine was paused, and cannot be tested without setting the clock of the host.
//
// For a pause between two attempts there is [Rest], which only needs a timer.
package alarm
