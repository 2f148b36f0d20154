module teambridge

go 1.26
