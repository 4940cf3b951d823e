#!/bin/bash
# build.sh PROGRAM...: programs of a real Kubernetes, built once from the Go
# module proxy into a cache outside the checkout; prints the folder they are in.
#
# PROGRAM: kubectl, etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
# kubelet, kube-proxy; and pause, which holds the namespaces of a pod (needs cc).
# `go install` refuses modules with replace directives, so Kubernetes' own
# go.mod becomes a scratch module whose ./staging folders are the published
# modules of the same release.
set -euo pipefail
release=${KUBE_RELEASE:-1.37.1}
home=${MAINSTAY_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/mainstay/tools}
out=$home/kubernetes-$release
mkdir -p "$out"

missing=()
for program in "$@"; do
  [ -x "$out/$program" ] || missing+=("$program")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v go > /dev/null || { echo "build.sh: ${missing[*]} must be built, and there is no go" >&2; exit 1; }
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  cd "$scratch"
  export GOGC=${GOGC:-400} CGO_ENABLED=0 GOWORK=off GOFLAGS="-trimpath -buildvcs=false" GOTOOLCHAIN=${GOTOOLCHAIN:-local}
  mod=$(go mod download -json "k8s.io/kubernetes@v$release" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
  sed -e 's|^module .*|module kubernetes-programs|' -e "s|=> \./staging/src/\(.*\)|=> \1 v0.${release#1.}|" "$mod" > go.mod
  go mod edit -require="k8s.io/kubernetes@v$release"
  flags="-s -w"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags="$flags -X $package.gitVersion=v$release -X $package.gitMajor=1 -X $package.gitMinor=$(echo "$release" | cut -d. -f2)"
  done
  for program in "${missing[@]}"; do
    case $program in
      pause)
        ${CC:-cc} -Os -static -s -DVERSION=1 -o "$scratch/pause" "$(go env GOMODCACHE)/k8s.io/kubernetes@v$release/build/pause/linux/pause.c"
        mv "$scratch/pause" "$out/pause.$$" && mv "$out/pause.$$" "$out/pause"
        continue ;;
      etcd) package=go.etcd.io/etcd/server/v3 ;;
      *) package=k8s.io/kubernetes/cmd/$program ;;
    esac
    echo "building $program $release" >&2
    go build -mod=mod -tags notest,grpcnotrace -ldflags "$flags" -o "$scratch/$program" "$package" >&2
    # Beside each other several may build: whole files only.
    mv "$scratch/$program" "$out/$program.$$" && mv "$out/$program.$$" "$out/$program"
  done
fi
echo "$out"
