package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/proto/frame"
)

// tiny runs a bench and returns the metrics that it gave, each with its number of figures. What the benches themselves check is that
// every push, heartbeat and login has arrived.
func tiny(t *testing.T, bench func(context.Context, *Recorder) error) map[string]int {
	t.Helper()
	var out bytes.Buffer
	r := NewRecorder("tiny", &out)
	if err := bench(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for line := range strings.Lines(out.String()) {
		var f struct {
			Bench, Case, Metric, Unit string
			Value                     *float64
			Bar, Aim                  *float64
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil || f.Bench != "tiny" || f.Case == "" || f.Unit == "" || f.Value == nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if math.IsNaN(*f.Value) || math.IsInf(*f.Value, 0) || strings.HasSuffix(f.Metric, "_ratio") && *f.Value <= 0 {
			t.Errorf("%s %s = %v", f.Case, f.Metric, *f.Value)
		}
		got[f.Metric]++
	}
	return got
}

func want(t *testing.T, got map[string]int, metric string, n int) {
	t.Helper()
	if got[metric] != n {
		t.Errorf("%d figures %s, want %d; all: %v", got[metric], metric, n, got)
	}
}

func TestSessionMemoryRuns(t *testing.T) {
	got := tiny(t, func(ctx context.Context, r *Recorder) error {
		return SessionMemory(ctx, &MemoryOptions{Transports: []string{"tcp", "tls", "ws", "wss"}, Low: 20, High: 50}, r)
	})
	for _, m := range []string{"user_bytes", "live_bytes", "rss_bytes", "goroutines"} {
		want(t, got, m, 5) // tls has two cases
	}
}

func TestFanoutRuns(t *testing.T) {
	got := tiny(t, func(ctx context.Context, r *Recorder) error {
		return Fanout(ctx, &FanoutOptions{Sessions: 50, Rounds: 2, Writes: 2, Cases: FanoutCases()}, r)
	})
	want(t, got, "floor_ratio", len(FanoutCases()))
	want(t, got, "goroutine_ratio", 1)
	want(t, got, "klink_us", len(FanoutCases()))
	want(t, got, "frames_per_write", len(FanoutCases()))
}

func TestLoginRuns(t *testing.T) {
	got := tiny(t, func(ctx context.Context, r *Recorder) error {
		return Login(ctx, &LoginOptions{Sessions: 50, Rounds: 2}, r)
	})
	want(t, got, "floor_ratio", len(loginCases()))
}

func TestHeartbeatRuns(t *testing.T) {
	got := tiny(t, func(ctx context.Context, r *Recorder) error {
		return Heartbeat(ctx, &HeartbeatOptions{Transports: []string{"tcp", "tls", "ws", "wss"}, Sessions: 50, Rounds: 2}, r)
	})
	want(t, got, "floor_ratio", 4)
	want(t, got, "floor_us", 4)
}

func TestUnicastRuns(t *testing.T) {
	got := tiny(t, func(ctx context.Context, r *Recorder) error {
		return Unicast(ctx, &UnicastOptions{Sessions: 50, Rounds: 2, Pushes: 100}, r)
	})
	want(t, got, "hub_ratio", 2)
}

func TestPresenceRuns(t *testing.T) {
	got := tiny(t, func(ctx context.Context, r *Recorder) error {
		return Presence(ctx, &PresenceOptions{Sessions: 100, Rounds: 2, Queries: 5}, r)
	})
	want(t, got, "count_ratio", 1)
	want(t, got, "query_us", 2)
}

func TestSizesThatMakeNoBenchAreRefused(t *testing.T) {
	t.Parallel()
	r := NewRecorder("none", &bytes.Buffer{})
	for name, err := range map[string]error{
		"memory":    SessionMemory(t.Context(), &MemoryOptions{Low: 5, High: 5}, r),
		"fanout":    Fanout(t.Context(), &FanoutOptions{Sessions: MaxSessions + 1, Rounds: 1, Writes: 1}, r),
		"case":      Fanout(t.Context(), &FanoutOptions{Sessions: 1, Rounds: 1, Writes: 1, Cases: []string{"udp"}}, r),
		"login":     Login(t.Context(), &LoginOptions{Sessions: 1, Rounds: 1}, r),
		"heartbeat": Heartbeat(t.Context(), &HeartbeatOptions{Rounds: 1}, r),
		"unicast":   Unicast(t.Context(), &UnicastOptions{Sessions: 1, Rounds: 1, Pushes: 1}, r),
		"presence":  Presence(t.Context(), &PresenceOptions{Sessions: 1, Rounds: 1, Queries: 1}, r),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The floor must move as many bytes as klink does.
func TestControlsAnswerWithAsManyBytesAsKlink(t *testing.T) {
	rig, err := newRig(t.Context(), NewRecorder("test", io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rig.close)
	k, err := rig.klink(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", k.server.hello.Devices)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(awaitTime)); err != nil {
		t.Fatal(err)
	}
	key, err := signer(string(auth.HS256), "")
	if err != nil {
		t.Fatal(err)
	}
	w := &swarm{spec: &spec{}, key: key, issued: time.Now()}
	body, err := w.connectBody(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frame.AppendStream(nil, body)); err != nil {
		t.Fatal(err)
	}
	in := frame.NewReader(c, 1<<16)
	near := func(what string, control int) {
		t.Helper()
		got, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		if d := len(got) - control; d < -20 || d > 20 {
			t.Errorf("%s: klink sends %d bytes, the control %d", what, len(got), control)
		}
	}
	near("Connected", len(cannedConnected()))
	if _, err := k.api.post(t.Context(), "/v1/push", pushBody(`{"tags":["`+commonTag+`"]}`)); err != nil {
		t.Fatal(err)
	}
	near("Push", len(pushFrame())-2)
}

func TestWorkersThatCannotWorkSaySo(t *testing.T) {
	t.Parallel()
	for _, s := range []spec{
		{Role: "cook"},
		{Role: roleSwarm, Max: MaxSessions + 1},
		{Role: roleFloor, Cert: "nowhere", Key: "nowhere"},
	} {
		s.Seconds = 20
		if c, err := start(t.Context(), &s); err == nil {
			c.close()
			t.Errorf("worker %+v started", s)
		}
	}
}

func TestWorkersRefuseOrdersThatAreNotTheirs(t *testing.T) {
	rig, err := newRig(t.Context(), NewRecorder("test", io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rig.close)
	for _, role := range []string{roleKlink, roleFloor, roleGoroutines, roleHub, roleSwarm} {
		c, err := rig.start(&spec{Role: role, Cert: rig.id.cert, Key: rig.id.key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ask(&order{Op: "dance"}); err == nil || !strings.Contains(err.Error(), "dance") {
			t.Errorf("%s: %v", role, err)
		}
		if role == roleFloor || role == roleGoroutines {
			if _, err := c.ask(&order{Op: opPush}); err == nil {
				t.Errorf("%s pushes nothing to everyone", role)
			}
		}
	}
}

func TestSwarmSaysWhyItDidNotFinish(t *testing.T) {
	rig, err := newRig(t.Context(), NewRecorder("test", io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rig.close)
	// Nobody answers on this listener, so no session can log in.
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	c, err := rig.start(&spec{Role: roleSwarm, Transport: "tcp", Addr: lis.Addr().String(), Max: 5, Window: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ask(&order{Op: opConnect, N: 5, TimeoutMs: 1})
	if err == nil || !strings.Contains(err.Error(), "0 of 2 sessions are open, 2 are being made") {
		t.Errorf("connect: %v", err)
	}
	if _, err := c.ask(&order{Op: opConnect, N: 6, TimeoutMs: 1}); err == nil {
		t.Error("more sessions than the swarm was made for")
	}
}
