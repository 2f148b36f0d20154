package sqlitetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Landed calls test with each file of testdata: a script that makes a database as an earlier
// version of the program left it. earlier says that it is from before version 1 of the
// present schema, and version which one it is of its time.
func Landed(t *testing.T, test func(t *testing.T, script string, earlier bool, version int)) {
	paths, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files in testdata: %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".sql")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			number, earlier := strings.CutPrefix(name, "development")
			version := 0
			for _, digit := range strings.TrimPrefix(number, "version") {
				version = 10*version + int(digit-'0')
			}
			test(t, string(script), earlier, version)
		})
	}
}

// Schema returns the schema of a database in a form that does not depend on the order of its
// columns, their defaults, or how its statements are spelled. query calls row with the text
// that each row of an answer has.
func Schema(query func(sql string, row func(text string)) error) (all []string, err error) {
	for _, sql := range []string{
		`SELECT m.name || '.' || c.name || ' ' || c.type || iif(c."notnull", ' NOT NULL', '') || iif(c.pk, ' key ' || c.pk, '')
			FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type='table' ORDER BY m.name, c.name`,
		`SELECT type || ' ' || name || ' ' || sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql<>'' ORDER BY type, name`,
	} {
		err := query(sql, func(text string) {
			text = comments.ReplaceAllString(text, "")
			all = append(all, strings.Join(strings.Fields(strings.ReplaceAll(text, `"`, "")), " "))
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

var comments = regexp.MustCompile(`--[^\n]*`)
