// Package interop holds the tests of a whole klink process against clients that were not written here: Node's TLS, the npm package ws,
// klink.js on top of it, and Chromium on the demo page. The scripts are in node/; `make setup` installs their packages.
package interop
