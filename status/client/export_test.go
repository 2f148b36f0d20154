package client

import "time"

// Hurry gives c a short back-off for tests.
func Hurry(c *Client) { c.back = backOff{time.Millisecond, 10 * time.Millisecond} }
