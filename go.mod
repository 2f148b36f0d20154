module teambridge

go 1.26

require github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3

require (
	github.com/gofrs/flock v0.13.1
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
)

require golang.org/x/sys v0.47.0 // indirect
