package tls13

import "strconv"

// Alert is a TLS alert description (RFC 8446 section 6). It is not an error by itself; see [Error].
type Alert uint8

// The alerts that this package sends, NoAlert when an error has none.
const (
	AlertCloseNotify       Alert = 0
	AlertUnexpectedMessage Alert = 10
	AlertBadRecordMAC      Alert = 20
	AlertRecordOverflow    Alert = 22
	AlertIllegalParameter  Alert = 47
	AlertDecodeError       Alert = 50
	AlertProtocolVersion   Alert = 70
	AlertInternalError     Alert = 80
	AlertUserCanceled      Alert = 90
	NoAlert                Alert = 255
)

func (a Alert) String() string {
	switch a {
	case AlertCloseNotify:
		return "close_notify"
	case AlertUnexpectedMessage:
		return "unexpected_message"
	case AlertBadRecordMAC:
		return "bad_record_mac"
	case AlertRecordOverflow:
		return "record_overflow"
	case AlertIllegalParameter:
		return "illegal_parameter"
	case AlertDecodeError:
		return "decode_error"
	case AlertProtocolVersion:
		return "protocol_version"
	case AlertInternalError:
		return "internal_error"
	case AlertUserCanceled:
		return "user_canceled"
	case NoAlert:
		return "none"
	}
	return strconv.Itoa(int(a))
}

// Reason classifies an [Error]: the label of the counter that it belongs to.
type Reason uint8

// The reasons.
const (
	ReasonNone       Reason = iota
	ReasonNotTLS            // the first bytes are no TLS handshake record
	ReasonHandshake         // crypto/tls ended the handshake: version, parameters, certificate, a bad message
	ReasonPeerAlert         // the client ended it with an alert
	ReasonPending           // more input than a handshake may hold
	ReasonSigner            // an AsyncSigner answered with an error
	ReasonAborted           // Abort was called
	ReasonInternal          // the key log was not as expected, or an AEAD could not be made
	ReasonType              // outer type of a record is not application_data
	ReasonVersion           // record version is not 0x0303
	ReasonOverflow          // record or plaintext over the limit
	ReasonLength            // the slice given is not one record
	ReasonMAC               // decryption failed
	ReasonPadding           // inner plaintext is all zero
	ReasonMessage           // an inner type or handshake message that has no place after the handshake
	ReasonDecode            // malformed alert or KeyUpdate
	ReasonFlood             // too many records without application data
	ReasonClosed            // the direction is closed
	ReasonKeyLimit          // the key protected as many records as it may (Retained cannot replace it)
	ReasonConn              // the retained crypto/tls connection failed
	ReasonMisuse            // use after Export
	ReasonNonceReuse        // a copy of the Record sealed with these sequence numbers already
	NumReasons
)

var reasonNames = [NumReasons]string{"none", "not_tls", "handshake", "peer_alert", "pending", "signer", "aborted", "internal", "type", "version",
	"overflow", "length", "mac", "padding", "message", "decode", "flood", "closed", "key_limit", "conn", "misuse", "nonce_reuse"}

func (r Reason) String() string {
	if r < NumReasons {
		return reasonNames[r]
	}
	return reasonNames[ReasonNone]
}

// Error is what every failing call of this package returns. All of them are final for the connection.
type Error struct {
	Reason Reason
	Alert  Alert // to send to the peer before closing, or NoAlert
	text   string
	cause  error
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.text + ": " + e.cause.Error()
	}
	return e.text
}

// Unwrap is the cause, if there is one: mostly an error of crypto/tls.
func (e *Error) Unwrap() error { return e.cause }

// Programming errors. Builds with the race detector panic with them instead.
var (
	ErrMisuse     error = &Error{ReasonMisuse, AlertInternalError, "tls: handshake used after its keys were moved", nil}
	ErrNonceReuse error = &Error{ReasonNonceReuse, NoAlert, "tls: a copied record would seal with a sequence number again", nil}
)

// The errors of the record layer are made once, so that a flood of bad records costs no allocation.
var (
	errType      = &Error{ReasonType, AlertUnexpectedMessage, "tls: record is not application data", nil}
	errVersion   = &Error{ReasonVersion, AlertProtocolVersion, "tls: record version is not 0x0303", nil}
	errOverflow  = &Error{ReasonOverflow, AlertRecordOverflow, "tls: record over 16,384 bytes", nil}
	errLength    = &Error{ReasonLength, AlertInternalError, "tls: not exactly one record", nil}
	errMAC       = &Error{ReasonMAC, AlertBadRecordMAC, "tls: record does not decrypt", nil}
	errPadding   = &Error{ReasonPadding, AlertUnexpectedMessage, "tls: record has nothing but padding", nil}
	errMessage   = &Error{ReasonMessage, AlertUnexpectedMessage, "tls: unexpected message after the handshake", nil}
	errDecode    = &Error{ReasonDecode, AlertDecodeError, "tls: malformed message", nil}
	errIllegal   = &Error{ReasonDecode, AlertIllegalParameter, "tls: KeyUpdate with an unknown request", nil}
	errFlood     = &Error{ReasonFlood, AlertUnexpectedMessage, "tls: too many records without application data", nil}
	errClosed    = &Error{ReasonClosed, NoAlert, "tls: connection is closed in this direction", nil}
	errAEAD      = &Error{ReasonInternal, AlertInternalError, "tls: no AEAD for these keys", nil}
	errSequence  = &Error{ReasonKeyLimit, AlertInternalError, "tls: sequence numbers used up", nil}
	errKeyLimit  = &Error{ReasonKeyLimit, NoAlert, "tls: write key has protected 2^24 records", nil}
	errAborted   = &Error{ReasonAborted, NoAlert, "tls: handshake aborted", nil}
	errPending   = &Error{ReasonPending, NoAlert, "tls: too much input during the handshake", nil}
	errNotTLS    = &Error{ReasonNotTLS, NoAlert, "tls: first bytes are not a TLS handshake", nil}
	errFirstSize = &Error{ReasonOverflow, AlertRecordOverflow, "tls: first record over 16,384 bytes", nil}
)

// misuse is called where going on would repeat a nonce.
func misuse(err error) error {
	if assertions {
		panic(err)
	}
	return err
}
