package daemon

import (
	"context"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
)

// readState is the user state: crux.
func readState(r *reading, p *Process) {
	c := p.store.Counters()
	r.count("klink_crux_superseded_total", "Logins refused for a newer session.", c.Superseded)
	r.count("klink_crux_too_many_total", "Logins refused by the device policy.", c.TooMany)
	r.count("klink_crux_revoked_total", "Logins refused for a revoked token.", c.Revoked)
	r.count("klink_crux_fenced_total", "Calls of incarnations that are not alive.", c.Fenced)
	r.count("klink_crux_replaced_total", "Sessions that a newer login replaced.", c.Replaced)
	r.count("klink_crux_closes_dropped_total", "Replaced sessions whose front end could not be told.", c.ClosesDropped)
	r.count("klink_crux_reaped_total", "Sessions removed because their front end's lease had ended.", c.Reaped)
	const forgotten = "Offline users of whom nothing is known any more."
	r.count("klink_crux_forgotten_total", forgotten, c.ForgottenOld, "reason", "old")
	r.count("klink_crux_forgotten_total", forgotten, c.ForgottenFull, "reason", "full")
	const limits = "Changes refused by a bound."
	r.count("klink_crux_limits_total", limits, c.TagLimit, "limit", "tags")
	r.count("klink_crux_limits_total", limits, c.RevocationLimit, "limit", "revocations")
	r.count("klink_crux_writes_total", "Changes on disk.", c.Writes)
	r.count("klink_crux_write_failures_total", "Changes refused because they could not be written.", c.WriteFails)
	r.count("klink_crux_snapshots_total", "Snapshots written.", c.Snapshots)
	r.count("klink_crux_snapshot_failures_total", "Snapshots that failed.", c.SnapshotFails)
	r.count("klink_crux_torn_bytes_total", "Bytes of an unfinished write, cut off at the start.", c.TornBytes)
	if s, err := p.store.Stats(context.Background()); err == nil {
		r.gauge("klink_crux_front_ends", "Front ends with a lease.", float64(s.FEs))
		r.gauge("klink_crux_users_online", "Users with a session.", float64(s.Users))
		r.gauge("klink_crux_sessions", "Sessions.", float64(s.Sessions))
		r.gauge("klink_crux_users_known", "Users of whom anything is stored.", float64(s.Known))
	}
}

// readServices is push, presence and who is let in.
func readServices(r *reading, p *Process) {
	s := p.push.Stats()
	r.count("klink_push_pushes_total", "Pushes planned, with those that clients publish.", s.Pushes)
	r.count("klink_push_lookups_total", "Reads of the user state.", s.Lookups)
	r.count("klink_push_moved_total", "Sessions that had moved and were found again.", s.Moved)
	r.count("klink_push_unreached_total", "Front ends that did not take their part.", s.Unreached)
	r.count("klink_push_replayed_total", "Answers given again for an idempotency key.", s.Replayed)
	r.count("klink_push_matched_total", "Sessions that pushes matched.", s.Matched)
	r.count("klink_push_enqueued_total", "Sessions that took a push.", s.Enqueued)
	r.count("klink_push_queued_total", "Of these, sessions where it waited behind a slow reader.", s.Queued)
	r.count("klink_push_offline_total", "Users and devices named by a target that had no session.", s.Offline)
	for i, n := range s.Dropped {
		if i > 0 {
			r.count("klink_push_dropped_total", "Sessions that did not take a push.", n, "reason", klink.Drop(i).String())
		}
	}
	for i, n := range s.Refused {
		if i > 0 {
			r.count("klink_push_refused_total", "Pushes that ended in an error.", n, "code", klink.Code(i).String())
		}
	}
	r.gauge("klink_push_traces", "Pushes that are remembered.", float64(s.Traces))
	r.gauge("klink_push_trace_bytes", "About what they take.", float64(s.TraceBytes))
	r.count("klink_push_traces_forgotten_total", "Pushes that were remembered once.", s.Forgotten)

	q := p.presence.Stats()
	r.count("klink_presence_queries_total", "Presence queries.", q.Queries)
	r.count("klink_presence_users_total", "Users asked for in them.", q.Users)
	r.count("klink_presence_stale_total", "Users of which the answer was stale.", q.Stale)
	r.count("klink_presence_errors_total", "Questions that could not be answered.", q.Errors)

	v := p.tokens.verifier
	r.count("klink_auth_tokens_accepted_total", "Device tokens accepted.", v.Accepted())
	for i := range auth.NumReasons {
		r.count("klink_auth_tokens_refused_total", "Device tokens refused.", v.Refused(i), "reason", i.String())
	}
	readJWKS(r, p)
	missing, bad := p.apiKeys.refused()
	const refused = "API requests without a good key."
	r.count("klink_auth_api_keys_refused_total", refused, missing, "reason", "missing")
	r.count("klink_auth_api_keys_refused_total", refused, bad, "reason", "unknown")
	for _, k := range p.apiKeys.now.Load().Keys() {
		used, limited := k.Uses()
		r.count("klink_auth_api_key_requests_total", "Requests by API key.", used, "key", k.Name())
		r.count("klink_auth_api_key_limited_total", "Requests refused by the key's rate.", limited, "key", k.Name())
	}
}

// readJWKS is the JWK set, if there is one.
func readJWKS(r *reading, p *Process) {
	if !p.tokens.set {
		return
	}
	s := p.tokens.verifier.JWKS()
	r.gauge("klink_auth_jwks_keys", "Keys of the JWK set in force.", float64(s.Keys))
	r.gauge("klink_auth_jwks_passed_over_keys", "Keys of the JWK set that can't be used here.", float64(s.PassedOver))
	read := 0.0
	if !s.At.IsZero() {
		read = float64(s.At.UnixMilli()) / 1000
	}
	r.gauge("klink_auth_jwks_read_timestamp_seconds", "When the JWK set was last read with success, Unix time; 0: never.", read)
	const reads = "Readings of the JWK set."
	r.count("klink_auth_jwks_reads_total", reads, s.Refreshed, "result", "ok")
	r.count("klink_auth_jwks_reads_total", reads, s.Failed, "result", "failed")
}

// readHot is the HTTP loop of pushes and presence queries.
func readHot(r *reading, p *Process) {
	if p.hot == nil {
		return
	}
	s := p.hot.Stats()
	r.gauge("klink_api_loop_connections", "Connections to the API that its loop has.", float64(s.Open))
	r.count("klink_api_loop_requests_total", "Requests that the loop answered.", s.Served)
	r.count("klink_api_loop_handed_over_total", "Connections that the loop gave to net/http.", s.Handed)
	r.count("klink_api_loop_crowded_total", "Of these, because too much partial input was held.", s.Crowded)
	r.count("klink_api_loop_accept_errors_total", "Accepts that failed; each is tried again after a pause.", s.AcceptErrors)
	const closed = "Connections that the loop closed."
	r.count("klink_api_loop_closed_total", closed, s.Idle, "reason", "idle")
	r.count("klink_api_loop_closed_total", closed, s.Late, "reason", "request_timeout")
	r.count("klink_api_loop_closed_total", closed, s.Slow, "reason", "answer_timeout")
	r.count("klink_api_loop_closed_total", closed, s.Lost, "reason", "no_descriptor")
}
