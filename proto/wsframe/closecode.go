package wsframe

// Close codes (RFC 6455, section 7.4.1) that this package answers with or reports.
const (
	CodeNormal   = 1000
	CodeProtocol = 1002
	CodeNone     = 1005 // stands for a close frame without a code; never on the wire
	CodeBadText  = 1007
	CodeTooBig   = 1009
)

// ValidCloseCode reports whether a close code may stand in a frame: those of RFC 6455 section 7.4.1 but the three that it keeps off the wire,
// 1012 to 1014 of the registry, and the ranges of libraries (3000 to 3999) and applications (4000 to 4999).
func ValidCloseCode(c uint16) bool {
	switch {
	case c >= 3000 && c <= 4999:
		return true
	case c >= 1000 && c <= 1014:
		return c < 1004 || c > 1006
	default:
		return false
	}
}
