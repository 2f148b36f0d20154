package winetest

import "syscall"

func running() bool { return syscall.NewLazyDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil }
