package daemon

import (
	"net"
	"os"
)

// notify tells the service manager how the process is, by the protocol of sd_notify(3): READY=1, STOPPING=1, STATUS=text. Without a manager that
// asked for it, it does nothing.
func notify(lines string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if name[0] == '@' {
		name = "\x00" + name[1:] // the abstract namespace
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(lines))
	return err
}
