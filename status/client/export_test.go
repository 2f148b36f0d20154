package client

import "time"

// Hurry makes c wait no longer than a test wants to.
func Hurry(c *Client) { c.back = backOff{time.Millisecond, 10 * time.Millisecond} }
