// Package model is a stand-in for the model of Claude Code, on loopback, and a home for it that belongs to nobody: with
// them the real program runs offline and without an account. `teambridge-probe` measures it so, and package standin, on
// top of this one, does for tests.
package model
