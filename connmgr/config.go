package connmgr

import (
	"errors"
	"time"
)

// Config is how sessions are treated. The zero value of a field means the default in its comment.
type Config struct {
	HeartbeatSeconds    int           // interval told to clients that wish for none: 60
	HeartbeatMin        int           // shortest that a client may ask for: 10
	HeartbeatMax        int           // longest: 600
	LoginTimeout        time.Duration // from open to Connect: 5 s
	QueueBytes          int           // outbound budget of a session: 64 KiB
	QueueTotalBytes     int64         // of all sessions together: 256 MiB
	MailboxBytes        int64         // pushes posted to one loop and not finished, of which one app holds at most half: 64 MiB
	MaxTags             int           // per connection: 128
	MaxFrame            int           // body of a client frame, told in Connected: 64 KiB
	MaxRequests         int           // in flight per connection: 32
	FramesPerSecond     int           // sustained; a frame costs one and one more for each KiB: 50
	FrameBurst          int           // at once: 200
	PublishPayloadBytes int           // payload of a client's Publish or Request: 32 KiB
	Endpoints           []string      // told in Connected
	TokenGrace          time.Duration // how long after its token's exp a session goes on: the leeway with which tokens are accepted
}

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.HeartbeatSeconds, 60)
	def(&c.HeartbeatMin, 10)
	def(&c.HeartbeatMax, 600)
	def(&c.QueueBytes, 64<<10)
	def(&c.MaxTags, 128)
	def(&c.MaxFrame, 64<<10)
	def(&c.MaxRequests, 32)
	def(&c.FramesPerSecond, 50)
	def(&c.FrameBurst, 200)
	def(&c.PublishPayloadBytes, 32<<10)
	if c.LoginTimeout == 0 {
		c.LoginTimeout = 5 * time.Second
	}
	if c.QueueTotalBytes == 0 {
		c.QueueTotalBytes = 256 << 20
	}
	if c.MailboxBytes == 0 {
		c.MailboxBytes = 64 << 20
	}
	return c
}

// Validate names the first value that can't work.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.HeartbeatMin < 1 || c.HeartbeatMax > 3600 || c.HeartbeatMin > c.HeartbeatSeconds || c.HeartbeatSeconds > c.HeartbeatMax:
		return errors.New("heartbeat: want 1 <= min <= interval <= max <= 3600 seconds")
	case c.QueueBytes < 1<<10 || c.QueueBytes > 16<<20:
		return errors.New("queue bytes of a session: want 1 KiB to 16 MiB")
	case c.MaxTags < 1 || c.MaxTags > 4096:
		return errors.New("tags per connection: want 1 to 4096")
	case c.MaxFrame < 1<<10 || c.MaxFrame > 1<<20:
		return errors.New("frame bytes: want 1 KiB to 1 MiB")
	case c.FramesPerSecond < 1 || c.FrameBurst < c.FramesPerSecond || c.FrameBurst > 1_000_000:
		return errors.New("frames per second: want 1 <= rate <= burst <= 1,000,000")
	case c.LoginTimeout < time.Second || c.LoginTimeout > 5*time.Minute:
		return errors.New("login timeout: want 1 s to 5 min")
	case c.MailboxBytes < 64<<10 || c.QueueTotalBytes < 0:
		return errors.New("mailbox bytes: want at least 64 KiB; queue bytes of all sessions: not negative")
	case c.MaxRequests < 1 || c.MaxRequests > 10_000:
		return errors.New("requests in flight: want 1 to 10,000")
	case c.PublishPayloadBytes < 1 || c.PublishPayloadBytes > c.MaxFrame:
		return errors.New("publish payload bytes: want 1 to the frame limit")
	}
	return nil
}
