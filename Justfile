# Short names for the scripts. Every task also works without just.

set shell := ["bash", "-euc"]
set positional-arguments

# one MCP session, printed
try *args:
    scripts/try "$@"

# set-up, checks and all tests, or the given ones
test *args:
    scripts/test "$@"

# checks and all tests, without the set-up
check:
    scripts/check
    go test -race ./...

# release archives in dist/
release:
    scripts/release

# what a command costs, compared with the other ways to run one
bench *args:
    . scripts/lib.sh && set_up && go run ./cmd/warmbox-bench "$@"

# build the image of boxes; `just image --target full` for the large one
image *args:
    go run ./cmd/warmbox image build "$@"
