package connmgr

import (
	"testing"
	"time"
)

func TestConfigNamesWhatCannotWork(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, c := range []Config{
		{HeartbeatMin: -1}, {HeartbeatMin: 70}, {HeartbeatMax: 50}, {HeartbeatMax: 4000}, {QueueBytes: 100}, {QueueBytes: 1 << 30},
		{MaxTags: -1}, {MaxTags: 5000}, {MaxFrame: 10}, {MaxFrame: 2 << 20}, {FramesPerSecond: -1}, {FramesPerSecond: 300},
		{FrameBurst: 2_000_000}, {LoginTimeout: time.Millisecond}, {LoginTimeout: time.Hour}, {PublishPayloadBytes: -1},
		{PublishPayloadBytes: 1 << 20}, {MailboxBytes: 1000}, {MailboxBytes: -1}, {QueueTotalBytes: -1}, {MaxRequests: -1}, {MaxRequests: 65_536},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}
