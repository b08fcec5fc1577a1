package daemon

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/fe/netloop"
	"github.com/klinkio/klink/proto/frame"
)

// readNet is the transport: fe/netloop.
func readNet(r *reading, p *Process) {
	s := p.node.NetStats()
	r.gauge("klink_fe_connections", "Connections of clients, in any state.", float64(s.Conns))
	r.gauge("klink_fe_handshakes_in_flight", "TLS handshakes that are not finished.", float64(s.Handshaking))
	r.gauge("klink_fe_input_bytes", "Partial input that is kept.", float64(s.InputBytes))
	r.gauge("klink_fe_output_bytes", "Output that the kernel has not taken yet.", float64(s.OutputBytes))
	r.count("klink_fe_accepted_total", "Connections accepted.", s.Accepted)
	r.count("klink_fe_accept_errors_total", "Accepts that failed; each is tried again after a pause.", s.AcceptErrors)
	for t := range s.Open {
		name := klink.Transport(t).String()
		r.gauge("klink_fe_open", "Connections that are ready for frames.", float64(s.Open[t]), "transport", name)
		r.count("klink_fe_opened_total", "Connections that became ready for frames.", s.Opened[t], "transport", name)
	}
	for i, n := range s.Refused {
		r.count("klink_fe_refused_total", "Connections that were not let in, or ended before they could speak klink.", n, "reason", netloop.Refusal(i).String())
	}
	for i, n := range s.Closed {
		r.count("klink_fe_closed_total", "Ready connections that the transport ended.", n, "reason", link.CloseReason(i).String())
	}
	r.count("klink_fe_received_bytes_total", "Bytes from sockets, as they came.", s.BytesIn)
	r.count("klink_fe_sent_bytes_total", "Bytes to sockets.", s.BytesOut)
	r.count("klink_fe_reads_total", "Reads of sockets.", s.Reads)
	r.count("klink_fe_writes_total", "Writes to sockets.", s.Writes)
	r.count("klink_fe_blocked_writes_total", "Writes that the kernel did not take whole.", s.Blocked)
	r.count("klink_fe_wakeups_total", "Returns of epoll_wait.", s.Wakeups)
	r.count("klink_fe_wakes_total", "Writes to the event descriptors of loops.", s.Wakes)
	r.count("klink_fe_stale_events_total", "Events and calls for connections that were gone.", s.Stale)
	readTLS(r, &s)
}

func readTLS(r *reading, s *netloop.Stats) {
	r.count("klink_tls_handshakes_started_total", "TLS handshakes begun.", s.TLS.Started)
	r.count("klink_tls_handshakes_total", "TLS handshakes finished, resumed ones included.", s.TLS.Done)
	r.count("klink_tls_resumed_total", "TLS handshakes that resumed a session.", s.TLS.Resumed)
	for i, n := range s.TLS.Failed {
		if name := tls13.Reason(i).String(); i > 0 {
			r.count("klink_tls_failures_total", "TLS handshakes that failed.", n, "reason", name)
		}
	}
	r.count("klink_tls_cipher_cache_hits_total", "Records whose cipher object was there.", s.Cache.Hits)
	r.count("klink_tls_cipher_cache_misses_total", "Records whose cipher object had to be made.", s.Cache.Misses)
	r.count("klink_tls_cipher_cache_evictions_total", "Cipher objects that made room for another connection.", s.Cache.Evictions)
	r.gauge("klink_tls_cipher_cache_entries", "Connections whose cipher objects are kept.", float64(s.Cache.Entries))
}

// sums adds up the counters of all loops.
type sums struct {
	sessions, open, blocked                                              int64
	out, pushed, enqueued, gaps, rounds, batched, deferred, hangs, stale uint64
	logins                                                               [connmgr.NumLoginResults]uint64
	in                                                                   [frame.NumKinds]uint64
	dropped                                                              [klink.NumDrops]uint64
	refused                                                              [connmgr.NumLimits]uint64
	ended                                                                []uint64
}

func (t *sums) add(s *connmgr.Stats) {
	t.sessions += s.Sessions.Load()
	t.open += s.Open.Load()
	t.blocked += s.Blocked.Load()
	t.out += s.FramesOut.Load()
	t.pushed += s.Pushed.Load()
	t.enqueued += s.Enqueued.Load()
	t.gaps += s.Gaps.Load()
	t.rounds += s.Rounds.Load()
	t.batched += s.Batched.Load()
	t.deferred += s.Deferred.Load()
	t.hangs += s.Hangs.Load()
	t.stale += s.Stale.Load()
	for i := range s.Logins {
		t.logins[i] += s.Logins[i].Load()
	}
	for i := range s.FramesIn {
		t.in[i] += s.FramesIn[i].Load()
	}
	for i := range s.Dropped {
		t.dropped[i] += s.Dropped[i].Load()
	}
	for i := range s.Refused {
		t.refused[i] += s.Refused[i].Load()
	}
	if t.ended == nil {
		t.ended = make([]uint64, len(s.Ended))
	}
	for i := range s.Ended {
		t.ended[i] += s.Ended[i].Load()
	}
}

// readSessions is the sessions: connmgr.
func readSessions(r *reading, p *Process) {
	var t sums
	m := p.node.Sessions()
	for _, sh := range m.Shards() {
		t.add(sh.Stats())
	}
	r.gauge("klink_fe_sessions", "Live sessions.", float64(t.sessions))
	r.gauge("klink_fe_before_login", "Ready connections without a login.", float64(t.open))
	r.gauge("klink_fe_blocked_sessions", "Sessions with a send queue.", float64(t.blocked))
	r.gauge("klink_fe_send_queue_bytes", "Bytes in send queues.", float64(m.QueuedBytes()))
	for i, n := range t.logins {
		r.count("klink_fe_logins_total", "Connects by result.", n, "result", connmgr.LoginResult(i).String())
	}
	for i, n := range t.ended {
		r.count("klink_fe_disconnects_total", "Sessions that ended.", n, "reason", connmgr.EndName(i))
	}
	for i, n := range t.in {
		r.count("klink_fe_frames_in_total", "Frames from clients.", n, "kind", frame.Kind(i).String())
	}
	r.count("klink_fe_frames_out_total", "Answers and control frames to clients.", t.out)
	r.count("klink_fe_pushed_total", "Push frames that connections took at once.", t.pushed)
	r.count("klink_fe_queued_total", "Push frames that had to wait for a slow reader.", t.enqueued)
	for i, n := range t.dropped {
		if i > 0 {
			r.count("klink_fe_dropped_messages_total", "Pushes that a session did not get.", n, "reason", klink.Drop(i).String())
		}
	}
	r.count("klink_fe_gaps_total", "Gap frames: clients were told of drops.", t.gaps)
	r.count("klink_fe_rounds_total", "Fan-out rounds.", t.rounds)
	r.count("klink_fe_batched_pushes_total", "Pushes that rode the round of another push.", t.batched)
	r.count("klink_fe_deferred_rounds_total", "Rounds put off to keep the pace of a large tag.", t.deferred)
	r.count("klink_fe_hangs_total", "Rounds of event loops that began more than 2 s late: the process was stopped or starved.", t.hangs)
	for i, n := range t.refused {
		r.count("klink_fe_limits_total", "Bounds that clients ran into.", n, "limit", connmgr.Limit(i).String())
	}
	r.count("klink_fe_stale_posts_total", "Mailbox messages for a session that was gone.", t.stale)
	held := 0.0
	if p.node.LeaseHeld() {
		held = 1
	}
	r.gauge("klink_fe_lease_held", "1 if the last renewal of the lease succeeded.", held)
}
