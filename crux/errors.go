package crux

import "errors"

var (
	errFloor     = errors.New("version floor is above 2^52")
	errLogin     = errors.New("login time is out of range")
	errHandle    = errors.New("handle is zero")
	errTransport = errors.New("transport is unknown")
	errBefore    = errors.New("time is missing")
)
