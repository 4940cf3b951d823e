#!/bin/bash
# cluster.sh up|down DIR: etcd, kube-apiserver and kube-controller-manager of a
# real Kubernetes on loopback ports, without nodes. `up` prints the kubeconfig.
# BIN is the folder of the programs (build.sh). No root, one cluster a machine.
set -euo pipefail
what=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
api=${API_PORT:-16443}
etcd=${ETCD_PORT:-12379}
peer=$((etcd + 1))

# A number from a file may belong to another process by now.
is_ours() { { tr "\0" " " < "/proc/$1/cmdline"; } 2> /dev/null | grep -qF "$dir/"; }

down() {
  for file in "$dir"/*.pid; do
    [ -f "$file" ] || continue
    pid=$(cat "$file")
    if is_ours "$pid"; then
      kill "$pid" 2> /dev/null || :
      for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep .05; done
      if is_ours "$pid"; then kill -9 "$pid" 2> /dev/null || :; fi
    fi
    rm -f "$file"
  done
  rm -rf "${dir:?}/etcd" "$dir/pki" "$dir/log" "$dir"/*.kubeconfig
}

start() {
  local name=$1
  shift
  setsid nohup "$@" >> "$dir/log/$name" 2>&1 < /dev/null &
  echo $! > "$dir/$name.pid"
}

certificate() { # name subject usage names
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2> /dev/null
  { echo basicConstraints=CA:FALSE; echo keyUsage=digitalSignature; echo "extendedKeyUsage=$3"; [ -z "$4" ] || echo "subjectAltName=$4"; } > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt" 2> /dev/null
}

kubeconfig() {
  cat > "$dir/$1.kubeconfig" << K
apiVersion: v1
kind: Config
clusters: [{name: real, cluster: {server: "https://127.0.0.1:$api", certificate-authority-data: $(base64 -w0 < ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 < "$1.crt"), client-key-data: $(base64 -w0 < "$1.key")}}]
contexts: [{name: real, context: {cluster: real, user: $1}}]
current-context: real
K
}

wait_for_api() {
  for _ in $(seq 450); do
    "$BIN/kubectl" --kubeconfig "$dir/admin.kubeconfig" get --raw /readyz > /dev/null 2>&1 && return 0
    sleep .2
  done
  tail -n 15 "$dir/log/apiserver" >&2
  echo "cluster.sh: the API is not ready after 90 s" >&2
  return 1
}

up() {
  down
  mkdir -p "$dir/pki" "$dir/log"
  cd "$dir/pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout ca.key -out ca.crt -subj /CN=ca -addext keyUsage=critical,keyCertSign 2> /dev/null
  openssl ecparam -name prime256v1 -genkey -noout -out sa.key
  openssl ec -in sa.key -pubout -out sa.pub 2> /dev/null
  certificate apiserver /CN=kube-apiserver serverAuth "DNS:kubernetes,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1"
  certificate admin /O=system:masters/CN=admin clientAuth ""
  certificate controllers /CN=system:kube-controller-manager clientAuth ""
  kubeconfig admin
  kubeconfig controllers
  start etcd "$BIN/etcd" --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" \
    --unsafe-no-fsync --log-level=warn
  start apiserver "$BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd" --bind-address=127.0.0.1 --secure-port="$api" --advertise-address=127.0.0.1 \
    --tls-cert-file="$dir/pki/apiserver.crt" --tls-private-key-file="$dir/pki/apiserver.key" --client-ca-file="$dir/pki/ca.crt" \
    --service-account-key-file="$dir/pki/sa.pub" --service-account-signing-key-file="$dir/pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/16 \
    --endpoint-reconciler-type=none --cert-dir="$dir/pki"
  wait_for_api
  # The default limits of the client make the first minute slow.
  start controllers "$BIN/kube-controller-manager" --kubeconfig="$dir/controllers.kubeconfig" --authentication-kubeconfig="$dir/controllers.kubeconfig" \
    --authorization-kubeconfig="$dir/controllers.kubeconfig" --client-ca-file="$dir/pki/ca.crt" --root-ca-file="$dir/pki/ca.crt" \
    --service-account-private-key-file="$dir/pki/sa.key" --use-service-account-credentials=true --leader-elect=false --bind-address=127.0.0.1 \
    --cert-dir="$dir/pki" --kube-api-qps=500 --kube-api-burst=1000
  echo "$dir/admin.kubeconfig"
}

case $what in
  up) up ;;
  down) down ;;
  *) echo "cluster.sh up|down DIR" >&2; exit 2 ;;
esac
