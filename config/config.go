package config

// Config is the whole configuration of one process. Tags: yaml is the key, def the default, doc the documentation; reload says
// that SIGHUP takes a change, secret that prints mask the value.
type Config struct {
	Node     Node     `yaml:"node"`
	Log      Log      `yaml:"log"`
	FE       FE       `yaml:"fe"`
	TLS      TLS      `yaml:"tls"`
	Sessions Sessions `yaml:"sessions"`
	Auth     Auth     `yaml:"auth"`
	Apps     []App    `yaml:"apps" def:"[{name: default}]" doc:"apps whose tokens may log in, each with its device policy: name, devices (all or one_per_device: every device once; one_per_user), winner (newest, oldest), max_devices, degraded"`
	Crux     Crux     `yaml:"crux"`
	API      API      `yaml:"api"`
	Admin    Admin    `yaml:"admin"`
	Drain    Drain    `yaml:"drain"`
	Runtime  Runtime  `yaml:"runtime"`
}

// Node says who this process is.
type Node struct {
	ID string `yaml:"id" def:"fe-1" doc:"name of this front end, unique in the cluster; it is part of session ids"`
}

// Log is what is logged and how.
type Log struct {
	Level  string `yaml:"level" def:"info" doc:"debug, info, warn or error" reload:"true" oneof:"debug,info,warn,error"`
	Format string `yaml:"format" def:"auto" doc:"json, text, or auto: text on a terminal" oneof:"auto,json,text"`
}

// FE is the front end's listeners and transport.
type FE struct {
	Listen         []string `yaml:"listen" def:"[':7443']" doc:"addresses for devices; TLS and WSS share a port"`
	Insecure       bool     `yaml:"insecure" def:"false" doc:"also accept plain TCP and WS on these addresses: for development, or behind a balancer that ends TLS"`
	Advertise      []string `yaml:"advertise" def:"[]" doc:"where clients dial, as URLs (tls://host:7443, wss://host:7443/connect); empty: made from listen"`
	Path           string   `yaml:"path" def:"/connect" doc:"path of the WebSocket upgrade"`
	Origins        []string `yaml:"origins" def:"[]" doc:"browser origins that may connect (https://app.example.com, or * for all); empty: only pages of the address that is dialled" reload:"true"`
	ProxyTrusted   []string `yaml:"proxy_trusted" def:"[]" doc:"networks (CIDR) from which a PROXY v2 header is believed"`
	Loops          int      `yaml:"loops" def:"0" doc:"event loops; 0: one a core" min:"0" max:"255"`
	HandshakeLoops int      `yaml:"handshake_loops" def:"0" doc:"loops that do TLS handshakes; 0: half of the cores, at least one" min:"0" max:"255"`
	MaxConnections int      `yaml:"max_connections" def:"0" doc:"connections at once; 0: what the limit of descriptors allows" min:"0"`
	MaxHandshakes  int      `yaml:"max_handshakes" def:"2000" doc:"TLS handshakes at once; each costs about 23 KB" min:"1"`
	AcceptRate     float64  `yaml:"accept_rate" def:"0" doc:"connections a second that are accepted, before TLS; 0: no limit" min:"0"`
	LoginRate      float64  `yaml:"login_rate" def:"0" doc:"logins a second that are admitted, after Connect; others are told when to come back; 0: no limit" min:"0"`
	SendBuffer     Size     `yaml:"send_buffer" def:"32KiB" doc:"send buffer of a socket in the kernel"`
	Lease          Duration `yaml:"lease" def:"10s" doc:"after this long without a renewal all sessions of this front end count as offline"`
}

// TLS is the certificate and the record engine.
type TLS struct {
	Cert      string `yaml:"cert" def:"" doc:"file with the certificate chain, PEM" reload:"true"`
	Key       string `yaml:"key" def:"" doc:"file with the private key, PEM" reload:"true"`
	Engine    string `yaml:"engine" def:"loop" doc:"loop: records are protected on the event loop; stdlib: a retained crypto/tls connection, about 4 to 7 KB more a session" oneof:"loop,stdlib"`
	AEADCache int    `yaml:"aead_cache" def:"1024" doc:"cipher objects kept ready on each loop for busy connections, 1.5 KB each" min:"0"`
}

// Sessions is how sessions are treated.
type Sessions struct {
	Heartbeat    Duration `yaml:"heartbeat" def:"60s" doc:"interval told to clients that wish for none"`
	HeartbeatMin Duration `yaml:"heartbeat_min" def:"10s" doc:"shortest interval that a client may ask for"`
	HeartbeatMax Duration `yaml:"heartbeat_max" def:"10m" doc:"longest interval that a client may ask for"`
	LoginTimeout Duration `yaml:"login_timeout" def:"5s" doc:"time from an open connection to its Connect"`
	MaxFrame     Size     `yaml:"max_frame" def:"64KiB" doc:"body of a frame from a client"`
	MaxPayload   Size     `yaml:"max_payload" def:"32KiB" doc:"payload of a client's Publish or Request"`
	MaxTags      int      `yaml:"max_tags" def:"128" doc:"tags of one connection" min:"1" max:"4096"`
	MaxRequests  int      `yaml:"max_requests" def:"32" doc:"requests in flight of one connection" min:"1"`
	FrameRate    int      `yaml:"frame_rate" def:"50" doc:"frames a second that one client may send, sustained; a frame costs one and one more for each KiB" min:"1"`
	FrameBurst   int      `yaml:"frame_burst" def:"200" doc:"frames that one client may send at once" min:"1"`
	Queue        Size     `yaml:"queue" def:"64KiB" doc:"outbound budget of one session; beyond it frames are collapsed, dropped, and then the session ends as slow_consumer"`
	QueueTotal   Size     `yaml:"queue_total" def:"256MiB" doc:"outbound budget of all sessions together"`
	Mailbox      Size     `yaml:"mailbox" def:"64MiB" doc:"pushes that wait for one event loop; beyond it a push is refused as overloaded"`
}

// Auth is the keys of device tokens and back ends.
type Auth struct {
	Audience string     `yaml:"audience" def:"" doc:"aud that tokens must carry; empty: not checked"`
	Leeway   Duration   `yaml:"leeway" def:"30s" doc:"how far clocks may differ when exp, nbf and iat are checked"`
	MaxTTL   Duration   `yaml:"max_ttl" def:"0s" doc:"longest time from iat to exp that a token may have; 0s: no limit"`
	JWKS     string     `yaml:"jwks" def:"" doc:"file or URL of a JWK set with more verification keys; it is read again every five minutes"`
	Keys     []TokenKey `yaml:"keys" def:"[]" doc:"verification keys of tokens: kid, alg (HS256, RS256, ES256, EdDSA), secret or secret_file, public_key_file" reload:"true" secret:"true"`
	APIKeys  []APIKey   `yaml:"api_keys" def:"[]" doc:"keys of back ends: name, app, hash (SHA-256, hex) or key_file, scopes (push, presence, tags, admin, probe), rate (requests a second), burst" reload:"true" secret:"true"`
}

// TokenKey verifies device tokens; the algorithm belongs to the key.
type TokenKey struct {
	KID           string `yaml:"kid"`
	Alg           string `yaml:"alg"`
	Secret        string `yaml:"secret,omitempty"`
	SecretFile    string `yaml:"secret_file,omitempty"`
	PublicKeyFile string `yaml:"public_key_file,omitempty"`
	SigningFile   string `yaml:"private_key_file,omitempty"` // for `klink token` only
}

// APIKey lets a back end in.
type APIKey struct {
	Name    string   `yaml:"name"`
	App     string   `yaml:"app,omitempty"`
	Hash    string   `yaml:"hash,omitempty"`
	KeyFile string   `yaml:"key_file,omitempty"`
	Scopes  []string `yaml:"scopes"`
	Rate    float64  `yaml:"rate,omitempty"`
	Burst   float64  `yaml:"burst,omitempty"`
}

// App is one app and its device policy.
type App struct {
	Name       string `yaml:"name"`
	Devices    string `yaml:"devices,omitempty"`
	Winner     string `yaml:"winner,omitempty"`
	MaxDevices int    `yaml:"max_devices,omitempty"`
	Degraded   bool   `yaml:"degraded,omitempty"`
}

// Crux is the user state.
type Crux struct {
	Path         string   `yaml:"path" def:"" doc:"folder in which the embedded store keeps tags set by back ends and revocations; empty: memory only"`
	KeepLastSeen Duration `yaml:"keep_last_seen" def:"720h" doc:"how long an offline user's last seen time is kept"`
}

// API is the HTTP API of back ends.
type API struct {
	Listen  string   `yaml:"listen" def:"127.0.0.1:7080" doc:"address of the HTTP API"`
	Timeout Duration `yaml:"timeout" def:"10s" doc:"how long an API request waits for front ends and the store"`
	Hosts   []string `yaml:"hosts" def:"[]" doc:"names that the Host header of API requests may have, without port; empty: any"`
}

// Admin is the operators' address.
type Admin struct {
	Listen string `yaml:"listen" def:"127.0.0.1:7081" doc:"address of metrics, profiles and build information; empty: none"`
}

// Drain is how the process ends.
type Drain struct {
	ReadyDelay Duration `yaml:"ready_delay" def:"0s" doc:"time between readiness going off and the first Disconnect, for balancers to notice"`
	PerSecond  int      `yaml:"per_second" def:"1000" doc:"sessions that are told to go a second" min:"1"`
	Spread     Duration `yaml:"spread" def:"5s" doc:"time over which the clients are told to come back, each with its own slot"`
	Timeout    Duration `yaml:"timeout" def:"60s" doc:"after this long those left are closed at once"`
	Target     string   `yaml:"target" def:"" doc:"endpoint that clients are told to use instead; empty: they choose"`
}

// Runtime is the Go runtime.
type Runtime struct {
	GOGC        int    `yaml:"gogc" def:"200" doc:"growth of the heap between collections, percent" min:"20" max:"1000"`
	MemoryLimit Size   `yaml:"memory_limit" def:"0B" doc:"soft limit of Go's memory; 0B: nine tenths of the container's limit, if it has one"`
	CPUs        string `yaml:"cpus" def:"" doc:"cores to which the event loops are pinned, for example 0-3,8; empty: none"`
}
