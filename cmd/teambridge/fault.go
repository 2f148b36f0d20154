package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/ssh"
	"teambridge/status/view"
)

// usage returns the error for a mistake in the command line.
func usage(hint, format string, args ...any) error {
	return api.Decide(api.CodeUsage, hint, format, args...)
}

// refuse returns the error for a request that teambridge could carry out, but does not.
func refuse(hint, format string, args ...any) error {
	return api.Decide(api.CodeRefused, hint, format, args...)
}

// notFound returns the error for something that does not exist.
func notFound(hint, format string, args ...any) error {
	return api.Decide(api.CodeNotFound, hint, format, args...)
}

// flagOf returns the flag for an option of a request, such as save-draft for saveDraft.
func flagOf(option string) string {
	var b strings.Builder
	for _, r := range option {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// exitStatus is an error that ends the command with a status and prints nothing.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// explain returns the code, message and hint of an error, and its exit status. The code is empty if nothing is to
// be printed.
func explain(ctx context.Context, err error) (api.Error, int) {
	if s, ok := errors.AsType[exitStatus](err); ok {
		return api.Error{}, int(s)
	}
	f := view.Explain(err)
	if option := api.Option(err); option != "" { // name the flag, not the option of the API
		f.Message = strings.Replace(f.Message, option, "--"+flagOf(option), 1)
	}
	switch {
	case f.Code != api.CodeInterrupted:
	case ctx.Err() == nil:
		f.Code = api.CodeError // this command was not interrupted
	default:
		f.Message = strings.ReplaceAll(f.Message, context.Canceled.Error(), context.Cause(ctx).Error())
	}
	if e, ok := errors.AsType[*ssh.Error](err); ok && f.Code == api.CodeError {
		f.Code, f.Hint = sshFault(e)
		return f, f.Code.Exit()
	}
	if errors.Is(err, client.ErrUnreachable) && f.Hint == "" && (f.Code == api.CodeError || f.Code == api.CodeTimeout) {
		f.Code, f.Hint = api.CodeTimeout, "see what is wrong with it: teambridge doctor"
	}
	return f, f.Code.Exit()
}
