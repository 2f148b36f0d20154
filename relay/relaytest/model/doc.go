// Package model is a stand-in for the model of Claude Code, on loopback, and a home for it without an account: with
// them the real program runs offline. `teambridge-probe` measures it in this way, and so does package standin, on top
// of this one, for tests.
package model
