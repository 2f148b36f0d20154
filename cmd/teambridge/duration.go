package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// duration is the value of a flag, zero or positive.
type duration time.Duration

// durationFlag adds a flag whose value is a duration.
func durationFlag(cmd *cobra.Command, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	cmd.Flags().Var((*duration)(d), name, usage)
}

func (d *duration) Type() string { return "duration" }

// String returns "0" for zero, a default that help leaves out.
func (d *duration) String() string {
	const day = 24 * time.Hour
	switch v := time.Duration(*d); {
	case v == 0:
		return "0"
	case v%day == 0:
		return strconv.Itoa(int(v/day)) + "d"
	default:
		return v.String()
	}
}

func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	if err == nil && v < 0 {
		err = errors.New("it is negative")
	}
	if err == nil {
		*d = duration(v)
	}
	return err
}

// parseDuration is [time.ParseDuration] with days (30d) and weeks (2w).
func parseDuration(s string) (time.Duration, error) {
	if strings.Trim(s, "0123456789.") == "" && strings.Trim(s, "0.") != "" {
		return 0, fmt.Errorf("a unit is missing; write %ss, %[1]sm, %[1]sh or %[1]sd", s)
	}
	invalid := errors.New("it is not a duration such as 30s, 5m, 1h30m or 2d")
	var hours strings.Builder
	rest := s
	for {
		unit := strings.IndexAny(rest, "dw")
		if unit < 0 {
			break
		}
		number := strings.LastIndexFunc(rest[:unit], func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) + 1
		n, err := strconv.ParseFloat(rest[number:unit], 64)
		if err != nil {
			return 0, invalid
		}
		if n *= 24; rest[unit] == 'w' {
			n *= 7
		}
		hours.WriteString(rest[:number] + strconv.FormatFloat(n, 'f', -1, 64) + "h")
		rest = rest[unit+1:]
	}
	d, err := time.ParseDuration(hours.String() + rest)
	if err != nil {
		return 0, invalid
	}
	return d, nil
}
