package frame

// Connect is the first frame of a connection, and there is only one.
type Connect struct {
	Token            []byte // JWT
	Device           []byte
	Attempt          uint64
	Client           ClientInfo
	Capabilities     [][]byte
	Resume           Resume
	Tags             [][]byte
	HeartbeatSeconds uint32 // wish; 0 leaves it to the server
	Background       bool
}

// ClientInfo describes the client's software.
type ClientInfo struct {
	Name, Version, Platform, AppVersion []byte
}

// Resume names what the client wants to go on with; without Session nothing is resumed.
type Resume struct {
	Session    []byte
	Inbox      uint64
	InboxEpoch []byte
	Nonce      []byte
	AgeMs      uint32
}

// Subscribe asks for tags.
type Subscribe struct {
	ID   uint32
	Tags []TagPosition
}

// TagPosition is a tag and, with an epoch, where to recover from.
type TagPosition struct {
	Tag    []byte
	Epoch  []byte
	Offset uint64
}

// Unsubscribe gives tags back.
type Unsubscribe struct {
	ID   uint32
	Tags [][]byte
}

// Publish sends to everyone who carries the tag.
type Publish struct {
	ID             uint32
	Tag            []byte
	Body           Body
	IdempotencyKey []byte
	CollapseKey    []byte
	Droppable      bool
}

// Request asks a service behind klink.
type Request struct {
	ID         uint32
	Service    []byte
	Method     []byte
	Body       Body
	DeadlineMs uint32 // from receipt; 0: the server's default
}

// Ack confirms stored pushes up to and including the position.
type Ack struct {
	Inbox      uint64
	InboxEpoch []byte
}

// Refresh brings a new token.
type Refresh struct {
	ID    uint32
	Token []byte
}

// SetHeartbeat asks for another interval.
type SetHeartbeat struct{ Seconds uint32 }

// Pong answers a [Ping] with the same id.
type Pong struct{ ID uint64 }

// Bye is the client's orderly end.
type Bye struct{ Reason []byte }

// Client is one decoded frame of a client: a view that is used again and again. Only the struct named by Kind has a
// meaning; the others hold what earlier frames left. The zero Client is ready.
type Client struct {
	Bounds Bounds // of repeated fields

	Kind         Kind
	Connect      Connect
	Subscribe    Subscribe
	Unsubscribe  Unsubscribe
	Publish      Publish
	Request      Request
	Ack          Ack
	Refresh      Refresh
	SetHeartbeat SetHeartbeat
	Pong         Pong
	Bye          Bye

	text []byte // binary form of the last frame that came as JSON
}
