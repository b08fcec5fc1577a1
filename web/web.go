// Package web is the browser's side: klink.js, a small client as one plain ES module, and the demo page in which two tabs chat.
// The files are embedded and served as they are; nothing is built.
package web

import (
	"embed"
	"io/fs"
)

//go:embed index.html demo.js demo.css klink.js
var files embed.FS

// Files is the page and its modules.
func Files() fs.FS { return files }
