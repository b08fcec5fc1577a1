package frame_test

import (
	"google.golang.org/protobuf/proto"

	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

var lengthTable = []prefix{
	{Name: "heartbeat", Hex: "00", Limit: 65536, Length: 0},
	{Name: "one byte", Hex: "7f", Limit: 65536, Length: 127},
	{Name: "two bytes", Hex: "8001", Limit: 65536, Length: 128},
	{Name: "at the limit", Hex: "808004", Limit: 65536, Length: 65536},
	{Name: "nothing yet", Hex: "", Limit: 65536, Length: -1},
	{Name: "not whole yet", Hex: "ff", Limit: 65536, Length: -1},
	{Name: "not whole yet, can be the limit", Hex: "8080", Limit: 16384, Length: -1},
	{Name: "not whole yet, will be above the limit", Hex: "8080", Limit: 16383, Error: "a frame of at least 16384 bytes, limit 16383"},
	{Name: "above the limit", Hex: "818004", Limit: 65536, Error: "a frame of at least 65537 bytes, limit 65536"},
	{Name: "above the limit before its end", Hex: "808080", Limit: 65536, Error: "a frame of at least 2097152 bytes, limit 65536"},
	{Name: "zero in two bytes", Hex: "8000", Limit: 65536, Error: "the length of a frame is written in more bytes than it needs"},
	{Name: "one in three bytes", Hex: "818000", Limit: 65536, Error: "the length of a frame is written in more bytes than it needs"},
}

type tableFrame struct {
	name string
	m    proto.Message
	note string
}

func client(k *klinkv1.ClientFrame) proto.Message { return k }
func server(k *klinkv1.ServerFrame) proto.Message { return k }

var frameTable = []tableFrame{
	{"ping", client(&klinkv1.ClientFrame{}), "a heartbeat: the empty body"},
	{"connect", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Connect{Connect: &klinkv1.Connect{
		Token: "eyJhbGciOiJIUzI1NiJ9.e30.x", Device: "d-1", Attempt: 7,
		Client:       &klinkv1.ClientInfo{Name: "klink-go", Version: "1.0.0", Platform: "linux/amd64", AppVersion: "3.2"},
		Capabilities: []string{"zstd"},
		Resume:       &klinkv1.Resume{Session: "fe1.3.2a", Inbox: 12, InboxEpoch: "e1", Nonce: []byte{1, 2, 3, 4}, AgeMs: 1500},
		Tags:         []string{"room:1", "room:2"}, HeartbeatSeconds: 45, Background: true,
	}}}), ""},
	{"connect first", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Connect{Connect: &klinkv1.Connect{
		Token: "t", Device: "d-1", Attempt: 1,
	}}}), "the least that a client sends"},
	{"subscribe", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Subscribe{Subscribe: &klinkv1.Subscribe{
		Id: 1, Tags: []*klinkv1.TagPosition{{Tag: "room:1"}, {Tag: "room:2", Epoch: "e9", Offset: 300}},
	}}}), ""},
	{"unsubscribe", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Unsubscribe{Unsubscribe: &klinkv1.Unsubscribe{
		Id: 2, Tags: []string{"room:1"},
	}}}), ""},
	{"publish json", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Publish{Publish: &klinkv1.Publish{
		Id: 3, Tag: "room:1", Body: &klinkv1.Publish_Json{Json: `{"hi":1}`},
		IdempotencyKey: "k-1", CollapseKey: "pos", Droppable: true,
	}}}), ""},
	{"publish text", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Publish{Publish: &klinkv1.Publish{
		Id: 4, Tag: "räume:1", Body: &klinkv1.Publish_Text{Text: "grüße \"alle\"\n"},
	}}}), ""},
	{"publish binary", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Publish{Publish: &klinkv1.Publish{
		Id: 5, Tag: "room:1", Body: &klinkv1.Publish_Data{Data: []byte{0, 0xfb, 0xff}},
	}}}), ""},
	{"request json", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Request{Request: &klinkv1.Request{
		Id: 6, Service: "echo", Method: "echo", Body: &klinkv1.Request_Json{Json: "[1,2]"}, DeadlineMs: 2000,
	}}}), ""},
	{"request text", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Request{Request: &klinkv1.Request{
		Id: 7, Service: "echo", Body: &klinkv1.Request_Text{Text: ""},
	}}}), "an empty text is a payload"},
	{"request binary", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Request{Request: &klinkv1.Request{
		Id: 8, Service: "echo", Body: &klinkv1.Request_Data{Data: []byte("x")},
	}}}), ""},
	{"ack", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Ack{Ack: &klinkv1.Ack{Inbox: 1 << 40, InboxEpoch: "e1"}}}), ""},
	{"refresh", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Refresh{Refresh: &klinkv1.Refresh{Id: 9, Token: "t2"}}}), ""},
	{"set heartbeat", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_SetHeartbeat{SetHeartbeat: &klinkv1.SetHeartbeat{Seconds: 240}}}), ""},
	{"pong", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Pong{Pong: &klinkv1.Pong{Id: 1<<63 + 5}}}), "64-bit numbers are strings in JSON"},
	{"bye", client(&klinkv1.ClientFrame{Kind: &klinkv1.ClientFrame_Bye{Bye: &klinkv1.Bye{Reason: "logout"}}}), ""},

	{"pong", server(&klinkv1.ServerFrame{}), "the answer to a heartbeat: the empty body"},
	{"connected", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Connected{Connected: &klinkv1.Connected{
		Session: "fe1.4.2a", ServerTimeMs: 1790000000123,
		Heartbeat:    &klinkv1.Heartbeat{Seconds: 60, MinSeconds: 10, MaxSeconds: 600},
		Limits:       &klinkv1.Limits{FrameBytes: 65536, Tags: 128, Requests: 32, QueuedBytes: 65536, FramesPerSecond: 50},
		Capabilities: []string{"zstd"}, Resume: klinkv1.ResumeOutcome_RESUME_OUTCOME_NEW,
		Endpoints: []string{"tls://a.example:7443", "wss://a.example:7443/connect"}, Provisional: true, Degraded: true,
		User: "alice", App: "default", Version: 1 << 52,
		Tags:           []*klinkv1.TagResult{{Tag: "room:1"}, {Tag: "staff", Error: klinkv1.ErrorCode_FORBIDDEN, Text: "the token does not allow this tag"}},
		TokenExpiresMs: 1790000600000,
	}}}), ""},
	{"subscribed", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: &klinkv1.Subscribed{
		Id: 1, Barrier: true,
		Tags: []*klinkv1.TagResult{{Tag: "room:2", Epoch: "e9", Offset: 302, Recovered: []*klinkv1.Push{
			{Id: "p1", Tag: "room:2", Body: &klinkv1.Push_Json{Json: "1"}}, {Id: "p2", Tag: "room:2", Body: &klinkv1.Push_Text{Text: "b"}},
		}}},
	}}}), ""},
	{"unsubscribed", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: &klinkv1.Subscribed{
		Id: 2, Left: true, Tags: []*klinkv1.TagResult{{Tag: "room:1"}},
	}}}), ""},
	{"tags changed", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_TagsChanged{TagsChanged: &klinkv1.TagsChanged{
		Added: []string{"vip", "room:3"}, Removed: []string{"room:1"},
	}}}), ""},
	{"published", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Published{Published: &klinkv1.Published{
		Id: 3, Push: "06f1x3s2m2v1a7k0d4h9q8w6zr", Matched: 1200, Enqueued: 1199,
	}}}), ""},
	{"response json", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Response{Response: &klinkv1.Response{
		Id: 6, Body: &klinkv1.Response_Json{Json: "[1,2]"},
	}}}), ""},
	{"response text", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Response{Response: &klinkv1.Response{
		Id: 7, Body: &klinkv1.Response_TextBody{TextBody: "done"},
	}}}), ""},
	{"response binary", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Response{Response: &klinkv1.Response{
		Id: 8, Body: &klinkv1.Response_Data{Data: []byte{}},
	}}}), "an empty payload"},
	{"response error", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Response{Response: &klinkv1.Response{
		Id: 9, Error: klinkv1.ErrorCode_UNKNOWN_SERVICE, Text: "no service of that name",
	}}}), ""},
	{"push json", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Push{Push: &klinkv1.Push{
		Id: "06f1x3s2m2v1a7k0d4h9q8w6zr", Tag: "room:1", From: "bob", Body: &klinkv1.Push_Json{Json: `{"hi":1}`},
		TimeMs: 1790000000123, CollapseKey: "pos", Expr: "room:1 && !vip",
	}}}), "json is JSON text within a string"},
	{"push text", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Push{Push: &klinkv1.Push{
		Id: "p2", Body: &klinkv1.Push_Text{Text: "\"\\\n\r\t\x01 </ü€😀"}, TimeMs: 1790000000124,
	}}}), ""},
	{"push binary", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Push{Push: &klinkv1.Push{
		Id: "p3", Body: &klinkv1.Push_Data{Data: []byte{0xfb, 0xff, 0xfe, 0}}, TimeMs: 1790000000125,
	}}}), "bytes are standard base64 in JSON"},
	{"gap", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Gap{Gap: &klinkv1.Gap{
		Tag: "room:1", From: 10, To: 14, Count: 4, Reason: "droppable",
	}}}), ""},
	{"ping", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Ping{Ping: &klinkv1.Ping{Id: 1<<63 + 5}}}), "answer with pong"},
	{"error", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Error{Error: &klinkv1.Error{
		Id: 4, Code: klinkv1.ErrorCode_LIMIT_EXCEEDED, Text: "at most 128 tags per connection", Limit: "tags",
	}}}), ""},
	{"disconnect", server(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Disconnect{Disconnect: &klinkv1.Disconnect{
		Code: 4000, Reason: "the front end drains", Retry: true, DelayMs: 730, Target: "tls://b.example:7443",
	}}}), ""},
}

var variantTable = []vector{
	{Name: "unknown field in a frame", From: "client", Hex: "4a020801" + "f83f01", JSON: `{"pong":{"id":"1"}}`, Note: "field 1023 is skipped"},
	{Name: "unknown field in a message", From: "client", Hex: "4a0408017a00", JSON: `{"pong":{"id":"1"}}`},
	{Name: "unknown kind", From: "client", Hex: "fa0100", JSON: `{"later":{}}`, Note: "field 31: a frame of a newer client is skipped, it is no heartbeat"},
	{Name: "fixed fields and a group", From: "client", Hex: "4a15" + "090102030405060708" + "1501020304" + "1b2001" + "1c" + "08ac02", JSON: `{"pong":{"id":"300"}}`, Note: "unknown fields of every wire type"},
	{Name: "wrong wire type", From: "client", Hex: "4a030a0141", JSON: `{"pong":{}}`, Note: "id as bytes: an unknown field"},
	{Name: "last kind wins", From: "client", Hex: "4a020801" + "52050a03627965", JSON: `{"bye":{"reason":"bye"}}`},
	{Name: "equal kinds merge", From: "client", Hex: "1a020801" + "1a051203612f62" + "1a0312" + "0163", JSON: `{"unsubscribe":{"id":1,"tags":["a/b","c"]}}`},
	{Name: "kind between equal kinds", From: "client", Hex: "1a031201614a00" + "1a03120163", JSON: `{"unsubscribe":{"tags":["c"]}}`, Note: "another kind in between discards the first"},
	{Name: "last body wins", From: "client", Hex: "22081a0161220162" + "2800", JSON: `{"publish":{"text":"b"}}`},
	{Name: "messages merge", From: "client", Hex: "0a0a" + "22030a0161" + "2203120162", JSON: `{"connect":{"client":{"name":"a","version":"b"}}}`},
	{Name: "long varint", From: "client", Hex: "4a0b" + "08ffffffffffffffffff01", JSON: `{"pong":{"id":"18446744073709551615"}}`},
	{Name: "number cut to 32 bits", From: "client", Hex: "4206" + "088180808010", JSON: `{"setHeartbeat":{"seconds":1}}`},
	{Name: "unknown field in a frame", From: "server", Hex: "42020801" + "f83f01", JSON: `{"ping":{"id":"1"}}`},
	{Name: "unknown kind", From: "server", Hex: "fa0100", JSON: `{}`},
	{Name: "defaults written out", From: "server", Hex: "4a0808001000" + "1a002200", JSON: `{"error":{}}`, Note: "error code 0 is OK"},
	{Name: "highest error code", From: "server", Hex: "4a0410ffff03", JSON: `{"error":{"code":65535}}`},
	{Name: "unknown error code", From: "server", Hex: "4a0310e707", JSON: `{"error":{"code":999}}`, Note: "a number where the name is not known"},
}

var refusedTable = []vector{
	{Name: "ends in a key", From: "client", Hex: "80"},
	{Name: "ends in a message", From: "client", Hex: "4a0508"},
	{Name: "ends in a number", From: "client", Hex: "4a0208ff"},
	{Name: "number of 65 bits", From: "client", Hex: "4a0b08ffffffffffffffffff02"},
	{Name: "field number 0", From: "client", Hex: "0200"},
	{Name: "field number above 2^29-1", From: "client", Hex: "828080801000"},
	{Name: "wire type 6", From: "client", Hex: "0e"},
	{Name: "group without end", From: "client", Hex: "0b"},
	{Name: "end without group", From: "client", Hex: "0c"},
	{Name: "end of another group", From: "client", Hex: "0b14"},
	{Name: "token not UTF-8", From: "client", Hex: "0a030a01ff"},
	{Name: "surrogate in a tag", From: "client", Hex: "1a0512" + "03eda080"},
	{Name: "text not UTF-8, overwritten", From: "client", Hex: "22061a01612201ff"},
	{Name: "overlong UTF-8", From: "client", Hex: "5204" + "0a02c080"},
	{Name: "length beyond the frame", From: "client", Hex: "0affffffffffffffffff01"},
	{Name: "ends in a message", From: "server", Hex: "420508"},
	{Name: "reason not UTF-8", From: "server", Hex: "520312" + "01ff"},
}
