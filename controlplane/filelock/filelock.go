// Package filelock locks open files and directories for one process at a time (flock(2)). The kernel gives a
// lock back when its process ends, however that ends.
package filelock

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// ErrHeld is the error of a lock that another process has.
var ErrHeld = syscall.EWOULDBLOCK

// Try locks a file as long as it is open. On an error, the file is closed.
func Try(f *os.File) error {
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// Await is [Try] that waits until nobody else has the lock; if it has to, it first calls waits. The end of ctx
// ends this, too. Nothing interrupts the call of the system that waits: what it gets after ctx has ended is given
// back at once. So after an error the file is not the caller's any more: it is closed, or will be.
func Await(ctx context.Context, f *os.File, waits func()) error {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, ErrHeld) {
		waits()
		return await(ctx, f)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

func await(ctx context.Context, f *os.File) error {
	got := make(chan error)
	go func() {
		err := flock(f, syscall.LOCK_EX)
		if err != nil {
			err = errors.Join(err, f.Close())
		}
		select {
		case got <- err:
		case <-ctx.Done():
			_ = f.Close() // nobody wants it any more
		}
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
