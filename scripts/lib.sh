# Functions of the scripts in this directory. It is sourced, not run. It needs bash 3.2 or newer, and changes to the
# root of the checkout.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "${0##*/}: $*" >&2; }
die() {
	say "$*"
	exit 1
}

# find_docker sets DOCKER to the first docker client that reaches an engine (through DOCKER_HOST, the docker context or
# the usual socket), and ENGINE to the version of the engine. The first client in PATH may be too new for the engine.
find_docker() {
	for DOCKER in docker /usr/bin/docker; do
		ENGINE=$(within 5 "$DOCKER" version --format '{{.Server.Version}}' 2>/dev/null) && return
	done
	return 1
}

# within SECONDS COMMAND… kills a command that hangs because of the engine. Some systems have no timeout(1).
within() {
	if command -v timeout >/dev/null; then timeout "$@"; else "${@:2}"; fi
}

on_debian_as_root() {
	[ "$(id -u)" = 0 ] && grep -qsx 'ID=debian' /etc/os-release
}

# install PACKAGE… installs Debian packages, or asks the user to.
install() {
	on_debian_as_root || die "needs $*; install it, then run this again"
	say "installing $* with apt-get"
	apt_update
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null || die "apt-get could not install $*"
}

# A source that fails is only reported: the install that follows fails if a package is missing.
apt_update() {
	[ -z "${apt_updated:-}" ] || return 0
	apt-get update -qq -o DPkg::Lock::Timeout=300 >&2 || say "apt-get update had errors; continuing"
	apt_updated=1
}

# set_up provides everything that warmbox needs on this machine: an engine, ./bin/warmbox, the slim image.
set_up() {
	local base
	base=$(scripts/engine)
	build
	image "$base"
}

# The agents are embedded in the server, so they are generated first.
build() {
	command -v go >/dev/null || die "needs Go $(awk '$1 == "go" { print $2 }' go.mod) or newer in PATH"
	say "building bin/warmbox"
	go generate ./...
	go build -o bin/warmbox ./cmd/warmbox
}

# release_build FILE builds the released program for GOOS and GOARCH: static, stripped, and with the agents, which must
# have been generated. doc/dependencies.md explains its size.
release_build() {
	local most=24000000 size
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$1" ./cmd/warmbox
	size=$(($(wc -c <"$1")))
	[ "$size" -le $most ] || die "the release for $(go env GOOS)/$(go env GOARCH) has $size bytes, more than the limit of $most; see doc/dependencies.md"
}

# image BASE [TARGET] builds warmbox/sandbox:slim or another target, unless the existing image was built from this
# Dockerfile, this base and this Python package index.
image() {
	local target=${2:-slim} recipe name index=
	name=warmbox/sandbox:$target
	if [ "$target" = full ]; then index=$(pip_index); fi
	recipe="$(git hash-object Dockerfile.sandbox) $1${index:+ $index}"
	find_docker || die "the engine stopped answering"
	if [ "$("$DOCKER" image inspect -f '{{index .Config.Labels "dev.warmbox.recipe"}}' $name 2>/dev/null)" = "$recipe" ]; then
		return
	fi
	say "building image $name on $1 (a minute or so, full more)"
	# Proxy arguments have an effect only if the environment sets them. A quiet build prints its output if it fails.
	"$DOCKER" build -q --target "$target" --build-arg "BASE=$1" --label "dev.warmbox.recipe=$recipe" -t $name \
		${index:+--build-arg "PIP_INDEX_URL=$index"} \
		--build-arg http_proxy --build-arg https_proxy --build-arg no_proxy - <Dockerfile.sandbox >/dev/null
}

# pip_index prints the Python package index for the image full: the one that PIP_INDEX_URL names, or PyPI. It prints
# "none", with which the image lacks python-pptx, if the index cannot be reached.
pip_index() {
	local index=${PIP_INDEX_URL:-https://pypi.org/simple}
	if [ "$index" != none ] && ! within 20 curl -fsS --max-time 10 -o /dev/null "${index%/}/python-pptx/" 2>/dev/null; then
		say "the Python package index cannot be reached (PIP_INDEX_URL names another): the image full lacks python-pptx"
		index=none
	fi
	echo "$index"
}
