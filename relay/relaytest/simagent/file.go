package simagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// create makes an inbox if it is missing. It makes no directory: a late writer
// must not bring back a team that has ended.
func create(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("simagent: create inbox: %w", err)
	}
	_, err = file.WriteString("[]")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("simagent: create inbox: %w", err)
	}
	return nil
}

func readRows(path string) ([]json.RawMessage, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("simagent: read inbox: %w", err)
	}
	return parseRows(data), nil
}

// write puts rows into the inbox.
func (w ways) write(path string, rows []json.RawMessage) error {
	data, err := formatRows(rows)
	if err != nil {
		return err
	}
	if w.marks {
		err = os.WriteFile(path, data, 0o600)
	} else {
		err = replace(path, data)
	}
	if err != nil {
		return fmt.Errorf("simagent: write inbox: %w", err)
	}
	return nil
}

func replace(path string, data []byte) error {
	var suffix [4]byte
	rand.Read(suffix[:]) // never fails: it ends the program instead
	temp := path + ".tmp." + hex.EncodeToString(suffix[:])
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// deliver appends one row to an inbox, under its lock.
func (w ways) deliver(ctx context.Context, path string, row json.RawMessage, now func() time.Time) error {
	if err := create(path); err != nil {
		return err
	}
	return locked(ctx, path, now, func() error {
		rows, err := readRows(path)
		if err != nil {
			return err
		}
		return w.write(path, append(rows, row))
	})
}
