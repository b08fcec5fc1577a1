module github.com/klinkio/klink

go 1.26.0
