package op

import "teambridge/status/api"

// Check that the service runs and can read its journal. Needs no token.
var Health = Op[None, api.Health]{
	Route: Route{Method: "GET", Path: "/healthz", Who: Anyone, Answers: []Answer{{200, "it runs"}}},
}

// Get this document.
var Document = Op[None, map[string]any]{
	Route: Route{Method: "GET", Path: "/openapi.json", Answers: []Answer{{200, "the document"}}},
}

// Get the version of the service.
var Version = Op[None, api.ServiceVersion]{
	Route: Route{Method: "GET", Path: "/v1/version", Who: Agents, Answers: []Answer{{200, "the version"}}},
}

// Get a URL that opens the page signed in, once, within a minute. A page cannot request it.
var SignIn = Op[SignInRequest, api.SignIn]{
	Route: Route{Method: "POST", Path: "/v1/sign-in", Answers: []Answer{{201, "the URL"}}},
}

// SignInRequest is the request of [SignIn].
type SignInRequest struct {
	File bool `query:"file"` // also make a file that only the user can read and that forwards to the URL
}
