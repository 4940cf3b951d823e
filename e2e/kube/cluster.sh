#!/bin/bash
# cluster.sh up|down DIR: etcd, kube-apiserver and kube-controller-manager of a
# real Kubernetes on loopback ports, without nodes. `up` prints the kubeconfig.
# BIN is the folder of the programs (build.sh). No root, one cluster a machine.
# nodes.sh gives it nodes: then ADDRESS is where they reach the API, and NODES
# how many there will be.
set -euo pipefail
what=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
api=${API_PORT:-16443}
address=${ADDRESS:-127.0.0.1}
nodes=${NODES:-0}
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
  rm -rf "${dir:?}/etcd" "$dir/pki" "$dir/log" "$dir"/*.kubeconfig "$dir/audit.json"
}

start() {
  local name=$1
  shift
  setsid nohup "$@" >> "$dir/log/$name" 2>&1 < /dev/null &
  echo $! > "$dir/$name.pid"
}

. "$here/keys.sh"

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
  certificate apiserver /CN=kube-apiserver serverAuth "DNS:kubernetes,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:$address"
  certificate admin /O=system:masters/CN=admin clientAuth ""
  certificate controllers /CN=system:kube-controller-manager clientAuth ""
  kubeconfig admin
  kubeconfig controllers
  # Without nodes nobody may be told where the API is: nothing could reach it there.
  more=(--endpoint-reconciler-type=none)
  watched=()
  if [ "$nodes" -gt 0 ]; then
    certificate kubelets /O=system:masters/CN=apiserver-to-kubelets clientAuth ""
    certificate scheduler /CN=system:kube-scheduler clientAuth ""
    kubeconfig scheduler
    more=(--kubelet-client-certificate="$dir/pki/kubelets.crt" --kubelet-client-key="$dir/pki/kubelets.key" --kubelet-certificate-authority="$dir/pki/ca.crt"
      --kubelet-preferred-address-types=InternalIP --enable-admission-plugins=NodeRestriction
      --audit-policy-file="$dir/audit.json" --audit-log-path="$dir/log/audit" --audit-log-maxsize=4096
      --default-not-ready-toleration-seconds=20 --default-unreachable-toleration-seconds=20)
    # A node that says nothing is not ready after 10 s, and its pods go 20 s later (Kubernetes' own: 50 s and 300 s): as where
    # memgraph-controller was measured, so that the figures can be set beside each other. Nodes send their status every 2 s.
    watched=(--node-monitor-grace-period=10s --node-monitor-period=1s)
    # What the operator asks for, and nobody else: its rights are compared with it.
    cat > "$dir/audit.json" << K
{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
  {"level": "Metadata", "users": ["system:serviceaccount:mainstay:mainstay-operator"]}, {"level": "None"}]}
K
  fi
  start etcd "$BIN/etcd" --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" \
    --unsafe-no-fsync --log-level=warn
  start apiserver "$BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd" --bind-address="$address" --secure-port="$api" --advertise-address="$address" \
    --tls-cert-file="$dir/pki/apiserver.crt" --tls-private-key-file="$dir/pki/apiserver.key" --client-ca-file="$dir/pki/ca.crt" \
    --service-account-key-file="$dir/pki/sa.pub" --service-account-signing-key-file="$dir/pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/16 \
    --cert-dir="$dir/pki" "${more[@]}"
  wait_for_api
  # The default limits of the client make the first minute slow.
  start controllers "$BIN/kube-controller-manager" --kubeconfig="$dir/controllers.kubeconfig" --authentication-kubeconfig="$dir/controllers.kubeconfig" \
    --authorization-kubeconfig="$dir/controllers.kubeconfig" --client-ca-file="$dir/pki/ca.crt" --root-ca-file="$dir/pki/ca.crt" \
    --service-account-private-key-file="$dir/pki/sa.key" --use-service-account-credentials=true --leader-elect=false --bind-address=127.0.0.1 \
    --cert-dir="$dir/pki" --kube-api-qps=500 --kube-api-burst=1000 "${watched[@]}"
  echo "$dir/admin.kubeconfig"
}

case $what in
  up) up ;;
  down) down ;;
  *) echo "cluster.sh up|down DIR" >&2; exit 2 ;;
esac
