package frame

// Kind is the kind of a frame from a client. The numbers of named kinds are those of the fields in ClientFrame.
type Kind uint8

// The kinds of frames from clients.
const (
	KindPing         Kind = iota // the empty body: a heartbeat, answered by the empty body
	KindConnect                  // [Connect]
	KindSubscribe                // [Subscribe]
	KindUnsubscribe              // [Unsubscribe]
	KindPublish                  // [Publish]
	KindRequest                  // [Request]
	KindAck                      // [Ack]
	KindRefresh                  // [Refresh]
	KindSetHeartbeat             // [SetHeartbeat]
	KindPong                     // [Pong]
	KindBye                      // [Bye]
	KindUnknown                  // of a newer client: skipped
	NumKinds
)

var kindNames = [NumKinds]string{
	"ping", "connect", "subscribe", "unsubscribe", "publish", "request", "ack", "refresh", "set_heartbeat", "pong", "bye", "unknown",
}

// String is the kind's stable name, for metrics and logs.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return kindNames[KindUnknown]
}

// ServerKind is the kind of a frame from a server. The numbers of named kinds are those of the fields in ServerFrame.
type ServerKind uint8

// The kinds of frames from servers.
const (
	ServerPong        ServerKind = iota // the empty body: the answer to a heartbeat
	ServerConnected                     // [Connected]
	ServerSubscribed                    // [Subscribed]
	ServerTagsChanged                   // [TagsChanged]
	ServerPublished                     // [Published]
	ServerResponse                      // [Response]
	ServerPush                          // [Push]
	ServerGap                           // [Gap]
	ServerPing                          // [Ping]
	ServerError                         // [Error]
	ServerDisconnect                    // [Disconnect]
	ServerUnknown                       // of a newer server: skipped
	NumServerKinds
)

var serverKindNames = [NumServerKinds]string{
	"pong", "connected", "subscribed", "tags_changed", "published", "response", "push", "gap", "ping", "error", "disconnect", "unknown",
}

// String is the kind's stable name, for metrics and logs.
func (k ServerKind) String() string {
	if k < NumServerKinds {
		return serverKindNames[k]
	}
	return serverKindNames[ServerUnknown]
}
