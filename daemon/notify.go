package daemon

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// statusServing says that the process is up, first and again after each reload.
const statusServing = "READY=1\nSTATUS=serving"

// reloading says that a reload has begun, at which time of the machine's monotonic clock: the manager waits for READY=1 from after it.
func reloading() (string, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "", fmt.Errorf("read the monotonic clock: %w", err)
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d\nSTATUS=reloading", now.Nano()/1000), nil
}

// notify tells the service manager how the process is, by the protocol of sd_notify(3): READY=1, RELOADING=1, STOPPING=1, STATUS=text. Without a manager that
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
