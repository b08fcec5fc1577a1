// Package push plans pushes and reports what they reached.
//
// [Service] turns a target into one [klink.Delivery] for each front end: users and devices are looked up in the user state
// (one batched read), tags, expressions and "everyone" go to all front ends. All parts of a target travel in the same delivery,
// so that a session which several of them match gets one copy. A session that was looked up but is gone when its front end
// gets to it may have moved: it is looked up once more, then reported.
//
// The service also changes the tags that back ends set on users, ends sessions, revokes tokens and deletes users: the user state first,
// then the front ends that hold the sessions.
//
// [Service.Trace] keeps the last pushes of this node and explains why a user did or did not get one.
//
// # Ownership
//
// A [klink.Push] belongs to the service from the call on and is never changed; front ends share it. Answers are the caller's.
// No goroutine belongs to the service: a push goes on in the callbacks of front ends after its caller has given up.
package push
