# What the scripts beside this file share. Sourced, never run; needs bash 3.2 or newer, and leaves the shell in the
# root of the checkout.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "${0##*/}: $*" >&2; }
die() {
	say "$*"
	exit 1
}

# find_docker sets DOCKER to the first docker client that an engine answers, wherever that client looks for it
# (DOCKER_HOST, docker context, usual socket), and ENGINE to that engine's version. A client in PATH proves nothing:
# it may be too new for the engine.
find_docker() {
	for DOCKER in docker /usr/bin/docker; do
		ENGINE=$(within 5 "$DOCKER" version --format '{{.Server.Version}}' 2>/dev/null) && return
	done
	return 1
}

# within SECONDS COMMAND… ends a command that an engine leaves hanging. Not every system has timeout(1).
within() {
	if command -v timeout >/dev/null; then timeout "$@"; else "${@:2}"; fi
}

on_debian_as_root() {
	[ "$(id -u)" = 0 ] && grep -qsx 'ID=debian' /etc/os-release
}

# install PACKAGE… puts Debian packages on this machine, or says that a human must.
install() {
	on_debian_as_root || die "needs $*; install that, then run this again"
	say "installing $* with apt-get"
	apt_update
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null || die "apt-get could not install $*"
}

# One source of many that fails is no reason to give up: the install that follows knows what it lacks.
apt_update() {
	[ -z "${apt_updated:-}" ] || return 0
	apt-get update -qq -o DPkg::Lock::Timeout=300 >&2 || say "apt-get update had errors, going on"
	apt_updated=1
}

# set_up brings up all that warmbox needs on this machine: an engine, ./bin/warmbox, the slim image.
set_up() {
	local base
	base=$(scripts/engine)
	build
	image "$base"
}

# The agent's binaries are embedded in the server, so they are generated first.
build() {
	command -v go >/dev/null || die "needs Go $(awk '$1 == "go" { print $2 }' go.mod) or newer in PATH"
	say "building bin/warmbox"
	go generate ./...
	go build -o bin/warmbox ./cmd/warmbox
}

# release_build FILE builds what a release ships for GOOS and GOARCH: static, stripped, and with the agents, which must
# have been generated. doc/dependencies.md says what its megabytes buy.
release_build() {
	local most=24000000 size
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$1" ./cmd/warmbox
	size=$(($(wc -c <"$1")))
	[ "$size" -le $most ] || die "a release for $(go env GOOS)/$(go env GOARCH) has $size bytes, and $most is the most; see doc/dependencies.md"
}

# image BASE [TARGET] builds warmbox/sandbox:slim or another target, unless the one that is there came from this
# Dockerfile and this base.
image() {
	local target=${2:-slim} recipe name
	name=warmbox/sandbox:$target
	recipe="$(git hash-object Dockerfile.sandbox) $1"
	find_docker || die "the engine stopped answering"
	if [ "$("$DOCKER" image inspect -f '{{index .Config.Labels "dev.warmbox.recipe"}}' $name 2>/dev/null)" = "$recipe" ]; then
		return
	fi
	say "building image $name on $1 (a minute or so, full more)"
	# The proxy arguments count only where the environment has them. A quiet build that fails prints what it kept back.
	"$DOCKER" build -q --target "$target" --build-arg "BASE=$1" --label "dev.warmbox.recipe=$recipe" -t $name \
		--build-arg http_proxy --build-arg https_proxy --build-arg no_proxy - <Dockerfile.sandbox >/dev/null
}
