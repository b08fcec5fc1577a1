package sdk

import (
	"time"
)

const (
	maxBatch      = 16       // frames in one write
	maxBatchBytes = 16 << 10 // no more are added to a write of so many
)

// writeLoop sends what is queued until the connection ends: the client's own frames first, those of calls at the rate that the
// server allows.
func (cn *conn) writeLoop() {
	defer close(cn.writeEnd)
	var batch [][]byte
	var held []byte // a frame of a call, taken and not sent yet
	var p pace
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		batch = batch[:0]
		var ready <-chan time.Time
		out := cn.out
		if held != nil {
			wait.Reset(p.delay(held, time.Now()))
			ready, out = wait.C, nil
		}
		select {
		case b := <-cn.urgent:
			p.take(b, time.Now())
			batch = append(batch, b)
		case held = <-out:
			p.limit(cn, time.Now()) // known by now: calls begin after the login
			if p.delay(held, time.Now()) > 0 {
				continue
			}
			batch = append(batch, held)
			p.take(held, time.Now())
			held = nil
		case <-ready:
			batch = append(batch, held)
			p.take(held, time.Now())
			held = nil
		case <-cn.end:
			return
		}
		batch, held = cn.gather(batch, held, &p)
		if err := cn.tr.write(batch); err != nil {
			cn.writeErr = err
			return
		}
		cn.sent.Store(int64(time.Since(cn.start)))
		cn.c.stats.framesOut.Add(uint64(len(batch)))
		for i, b := range batch {
			cn.c.stats.bytesOut.Add(uint64(len(b)))
			batch[i] = nil
		}
	}
}

// gather adds what is queued already and may go now.
func (cn *conn) gather(batch [][]byte, held []byte, p *pace) (_ [][]byte, stillHeld []byte) {
	size := len(batch[0])
	for len(batch) < maxBatch && size < maxBatchBytes {
		var b []byte
		select {
		case b = <-cn.urgent:
		default:
			if held != nil {
				return batch, held
			}
			select {
			case b = <-cn.out:
				if p.delay(b, time.Now()) > 0 {
					return batch, b
				}
			default:
				return batch, nil
			}
		}
		p.take(b, time.Now())
		batch = append(batch, b)
		size += len(b)
	}
	return batch, held
}

// pace keeps the sustained rate of frames: a server counts one for a frame and one more for each KiB, and ends the session of who sends
// more. The rate is also the burst here, which every server grants. The zero pace has no limit yet and counts what it owes.
type pace struct {
	rate   float64 // a second; 0: no limit
	tokens float64
	at     time.Time
}

// limit takes over what Connected said.
func (p *pace) limit(cn *conn, now time.Time) {
	if p.rate > 0 {
		return
	}
	select {
	case <-cn.logged:
		if r := float64(cn.limits.FramesPerSecond); r > 0 {
			*p = pace{rate: r, tokens: r + p.tokens, at: now}
		}
	default:
	}
}

func (p *pace) fill(now time.Time) {
	p.tokens = min(p.rate, p.tokens+now.Sub(p.at).Seconds()*p.rate)
	p.at = now
}

func frameCost(body []byte) float64 {
	if len(body) == 0 {
		return 0 // heartbeats are free
	}
	return float64(1 + len(body)>>10)
}

// delay is how long body has to wait. A frame that costs more than the burst waits for a full one.
func (p *pace) delay(body []byte, now time.Time) time.Duration {
	if p.rate == 0 {
		return 0
	}
	p.fill(now)
	lack := min(frameCost(body), p.rate) - p.tokens
	if lack <= 0 {
		return 0
	}
	return time.Duration(lack/p.rate*float64(time.Second)) + 1 // rounded up: a timer must not fire too early for nothing
}

// take pays for body, on credit if need be.
func (p *pace) take(body []byte, now time.Time) {
	if p.rate > 0 {
		p.fill(now)
	}
	p.tokens -= frameCost(body)
}
