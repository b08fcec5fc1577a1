package loadtest

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// cannedConnected is what the controls answer to a Connect: as long as klink's own answer to a session of the load test.
func cannedConnected() []byte {
	return frame.AppendConnected(nil, &frame.Connected{
		Session: "fe-1.123456.1234567890", ServerTimeMs: time.Now().UnixMilli(),
		Heartbeat: frame.Heartbeat{Seconds: 60, MinSeconds: 10, MaxSeconds: 600},
		Limits:    frame.Limits{FrameBytes: 64 << 10, Tags: 128, Requests: 32, QueuedBytes: 64 << 10, FramesPerSecond: 50},
		Endpoints: []string{"tls://127.0.0.1:40000", "wss://127.0.0.1:40000/connect", "tcp://127.0.0.1:40000", "ws://127.0.0.1:40000/connect"},
		User:      userID(1), App: klink.DefaultApp, Version: 1 << 51,
		Tags:           []frame.TagResult{{Tag: ownTag(1)}, {Tag: commonTag}},
		TokenExpiresMs: time.Now().UnixMilli(),
	})
}

// cannedSubscribed answers a Subscribe to the two tags of a session.
func cannedSubscribed() []byte {
	return frame.AppendSubscribed(nil, &frame.Subscribed{ID: subscribeID, Tags: []frame.TagResult{{Tag: ownTag(1)}, {Tag: commonTag}}, Barrier: true})
}

// subscribeID is the id of the Subscribe of sessions that send one.
const subscribeID = 1

// samplePush is a push as it leaves the server.
func samplePush() *klink.Push {
	return &klink.Push{
		ID: "0123456789abcdef0123456789", Payload: klink.Payload{Kind: klink.DataBinary, Data: make([]byte, payloadBytes)}, Accepted: time.Now(),
	}
}
