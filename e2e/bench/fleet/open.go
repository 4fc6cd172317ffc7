package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The pauses between attempts are those of the agent of a proxy, jittered by half.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// open connects and returns when the control plane has let the client in. One that is
// turned away for want of a place or of time comes back, on a new connection, as the
// agent of a proxy does, until the context ends. The stream lives until close.
func (c *client) open(opening context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := c.attempt(opening)
		if err == nil || !temporary(err) {
			return err
		}
		c.fleet.turnedAway(err)
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-wait.C:
		case <-opening.Done():
			wait.Stop()
			return errors.Join(opening.Err(), err)
		}
	}
}

// temporary reports whether to come back after an error. What is wrong with the client
// itself stays wrong.
func temporary(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		return true
	}
	return false
}

// attempt opens one connection with one stream, and sends the first requests. What the
// client holds from an earlier connection is listed, as an Envoy does.
func (c *client) attempt(opening context.Context) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.WithoutCancel(opening), "authorization", c.token))
	stop := context.AfterFunc(opening, cancel)
	conn, err := c.fleet.dial()
	if err != nil {
		stop()
		cancel()
		return err
	}
	if err = c.enter(ctx, conn, cancel); err == nil && !stop() {
		err = opening.Err()
	}
	if err != nil {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
		stop()
		cancel()
		return errors.Join(err, conn.Close())
	}
	go c.read(c.done)
	return nil
}

// enter opens the stream and waits until the client is let in, which the headers say.
func (c *client) enter(ctx context.Context, conn *grpc.ClientConn, cancel context.CancelFunc) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{StreamName: "DeltaAggregatedResources", ServerStreams: true, ClientStreams: true},
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.cancel, c.conn, c.stream, c.done = cancel, conn, stream, make(chan struct{})
	c.closing, c.err, c.probed = false, nil, false
	err = c.begin()
	c.mu.Unlock()
	if header, _ := stream.Header(); header == nil { // it was turned away, and receiving says why
		var none mem.Buffer
		return stream.RecvMsg(&none)
	}
	return err
}

// dial returns a connection, which is opened with its first stream.
func (f *fleet) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+f.address,
		grpc.WithTransportCredentials(credentials.NewTLS(f.tls)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(256<<20)),
		// Fixed windows switch bandwidth probing off, which costs pings.
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20),
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
		grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0), grpc.WithUserAgent("meshgate-fleet-bench"))
}
