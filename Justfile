# Short names for what the scripts do; nothing is done only here.

set shell := ["bash", "-euc"]
set positional-arguments

# one conversation with a model's client, printed
try *args:
    scripts/try "$@"

# set-up, checks and every test, or those given
test *args:
    scripts/test "$@"

# checks and every test, with no set-up: for after the first time
check:
    scripts/check
    go test -race ./...

# release archives, into dist/
release:
    scripts/release

# what a command costs, compared with the other ways to run one
bench *args:
    . scripts/lib.sh && set_up && go run ./cmd/warmbox-bench "$@"

# the image that boxes run in; `just image --target full` for the large one
image *args:
    go run ./cmd/warmbox image build "$@"
