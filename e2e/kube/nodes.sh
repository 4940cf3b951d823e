#!/bin/bash
# nodes.sh up DIR NODES | load DIR IMAGE.tar... | down DIR: a real Kubernetes with
# nodes, on one machine. `up` prints the kubeconfig. Root, and containerd, runc,
# iptables and the CNI plugins bridge and host-local; BIN is the folder of the
# programs (build.sh), PAUSE an archive of the image localhost/pause:1.
#
# nodes.sh off|on DIR NODE       the power of a node is cut; it boots again
# nodes.sh freeze|thaw DIR NODE  every process of a node stops; it goes on
# nodes.sh cut|heal DIR NODE     the cable of a node is pulled; it is back
#
# A node is a network namespace behind a bridge, a mount namespace and a cgroup,
# with its own containerd, kubelet and kube-proxy: nothing of the machine's own is
# changed but the bridge, its routes and ip_forward, and `down` puts that back.
# The machine reaches pods by their addresses, and no Service. One at a time.
set -euo pipefail
what=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2
here=$(cd "$(dirname "$0")" && pwd)
bridge=mainstay0
gate=10.250.0.1
address=$gate
api=16443
cni=${CNI_BIN:-/usr/lib/cni}

is_ours() { { tr "\0" " " < "/proc/$1/cmdline"; } 2> /dev/null | grep -qF "$dir/"; }

start() {
  local name=$1
  shift
  setsid nohup "$@" >> "$dir/log/$name" 2>&1 < /dev/null &
  echo $! > "$dir/$name.pid"
}

wait_for() { # what, command
  local name=$1
  shift
  for _ in $(seq 600); do
    "$@" > /dev/null 2>&1 && return 0
    sleep .2
  done
  echo "nodes.sh: no $name after 120 s; see $dir/log" >&2
  return 1
}

ctr_of() { local n=$1; shift; nsenter -t "$(cat "$dir/containerd$n.pid")" -m ctr -a "$dir/node$n/containerd.sock" -n k8s.io "$@"; }

network() { # node
  local n=$1
  ip netns add "mainstay$n"
  ip link add "mainstay-n$n" type veth peer name eth0 netns "mainstay$n"
  ip link set "mainstay-n$n" master $bridge up
  ip -n "mainstay$n" link set lo up
  ip -n "mainstay$n" addr add "10.250.0.$((n + 1))/24" dev eth0
  ip -n "mainstay$n" link set eth0 up
  ip -n "mainstay$n" route add default via $gate
  ip netns exec "mainstay$n" sysctl -qw net.ipv4.ip_forward=1
  ip route replace "10.244.$n.0/24" via "10.250.0.$((n + 1))"
}

settings() { # node
  local n=$1 at=$dir/node$1
  mkdir -p "$at"/{root,state,opt,cni,kubelet,logs,volumes,netns,containers,libcni}
  : > "$at/resolv.conf"
  # oom scores may not be lowered without CAP_SYS_RESOURCE, which many machines do not give.
  cat > "$at/containerd.toml" << K
version = 2
root = "$at/root"
state = "$at/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "$at/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$at/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$cni"
    conf_dir = "$at/cni"
K
  cat > "$at/cni/10-bridge.conflist" << K
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$at/addresses", "ranges": [[{"subnet": "10.244.$n.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
K
  cat > "$at/kubelet.yaml" << K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $dir/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $dir/pki/node$n.crt
tlsPrivateKeyFile: $dir/pki/node$n.key
containerRuntimeEndpoint: unix://$at/containerd.sock
podLogsDir: $at/logs
cgroupDriver: cgroupfs
cgroupRoot: /mainstay-node$n
failCgroupV1: false
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [$gate]
resolvConf: $at/resolv.conf
# The disk of a developer's machine is full, and that is no reason to evict a test.
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
imageGCHighThresholdPercent: 100
# Five of them within the 10 s after which a node counts as lost (cluster.sh). The lease is renewed every 5 s: more often than
# that a busy machine does not manage.
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 20
volumePluginDir: $at/plugins
K
}

groups() { # node: with cgroup v1 one in each hierarchy, with v2 the one
  local n=$1 c
  for c in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
    [ -f "$c/cgroup.procs" ] && [ -w "$c" ] || continue
    case $c in */unified/) continue ;; esac
    mkdir -p "$c/mainstay-node$n" 2> /dev/null || continue
    for f in cpuset.cpus cpuset.mems; do
      if [ -f "$c/$f" ] && [ -f "$c/mainstay-node$n/$f" ]; then cat "$c/$f" > "$c/mainstay-node$n/$f" 2> /dev/null || :; fi
    done
  done
}

node() { # node
  local n=$1 at=$dir/node$1
  network "$n"
  settings "$n"
  groups "$n"
  mkdir -p /var/log/containers /var/lib/cni
  # containerd makes the mount namespace of the node; the others join it. Three folders have a fixed place.
  start "containerd$n" nsenter --net="/run/netns/mainstay$n" unshare --mount --propagation private bash -c "
    mount --make-rshared / && mount --bind '$at/netns' /run/netns && mount --bind '$at/containers' /var/log/containers &&
    mount --bind '$at/libcni' /var/lib/cni && exec containerd --config '$at/containerd.toml'"
  wait_for "containerd of node$n" ctr -a "$at/containerd.sock" version
}

boot() { # node
  local n=$1 at=$dir/node$1 pid
  pid=$(cat "$dir/containerd$n.pid")
  start "kubelet$n" nsenter -t "$pid" -m -n "$BIN/kubelet" --kubeconfig="$dir/node$n.kubeconfig" --config="$at/kubelet.yaml" \
    --root-dir="$at/kubelet" --cert-dir="$at" --hostname-override="node$n" --node-ip="10.250.0.$((n + 1))"
  # It must not touch limits of the kernel that belong to the machine.
  start "proxy$n" nsenter -t "$pid" -m -n "$BIN/kube-proxy" --kubeconfig="$dir/proxy.kubeconfig" --proxy-mode=iptables --cluster-cidr=10.244.0.0/16 \
    --hostname-override="node$n" --bind-address="10.250.0.$((n + 1))" --conntrack-max-per-core=0 \
    --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s
}

load() {
  local n image
  for n in $(seq "$(cat "$dir/nodes")"); do
    for image in "$@"; do ctr_of "$n" images import "$image" > /dev/null; done
  done
}

up() {
  local n kubectl
  nodes=$1
  [ "$(id -u)" = 0 ] || { echo "nodes.sh: nodes need root" >&2; exit 1; }
  for program in containerd ctr runc iptables nsenter; do
    command -v $program > /dev/null || { echo "nodes.sh: there is no $program" >&2; exit 1; }
  done
  [ -x "$cni/bridge" ] || { echo "nodes.sh: no CNI plugins in $cni" >&2; exit 1; }
  down
  mkdir -p "$dir/log"
  cat /proc/sys/net/ipv4/ip_forward > "$dir/ip_forward"
  echo "$nodes" > "$dir/nodes"
  ip link add $bridge type bridge
  ip addr add $gate/24 dev $bridge
  ip link set $bridge up
  sysctl -qw net.ipv4.ip_forward=1
  ADDRESS=$gate NODES=$nodes bash "$here/cluster.sh" up "$dir" > /dev/null
  kubectl="$BIN/kubectl --kubeconfig $dir/admin.kubeconfig"
  . "$here/keys.sh"
  (
    cd "$dir/pki"
    certificate proxy /CN=system:kube-proxy clientAuth ""
    kubeconfig proxy
    for n in $(seq "$nodes"); do
      certificate "node$n" "/O=system:nodes/CN=system:node:node$n" serverAuth,clientAuth "DNS:node$n,IP:10.250.0.$((n + 1))"
      kubeconfig "node$n"
    done
  )
  start scheduler "$BIN/kube-scheduler" --kubeconfig="$dir/scheduler.kubeconfig" --authentication-kubeconfig="$dir/scheduler.kubeconfig" \
    --authorization-kubeconfig="$dir/scheduler.kubeconfig" --leader-elect=false --bind-address=127.0.0.1 --cert-dir="$dir/pki"
  start dns python3 "$here/dns.py" "$dir/pki" $gate $api
  $kubectl create clusterrolebinding node-proxies --clusterrole=system:node-proxier --user=system:kube-proxy > /dev/null
  for n in $(seq "$nodes"); do node "$n"; done
  load "$PAUSE"
  for n in $(seq "$nodes"); do boot "$n"; done
  for n in $(seq "$nodes"); do wait_for "Ready node$n" $kubectl wait --for=condition=Ready "node/node$n" --timeout=1s; done
  wait_for "service account" $kubectl get serviceaccount default
  echo "$dir/admin.kubeconfig"
}

# Every process that runs in a node: found by its cgroup or by its network.
processes() { # node
  { find /sys/fs/cgroup -path "*mainstay-node$1*" -name cgroup.procs -exec cat {} + 2> /dev/null || :; ip netns pids "mainstay$1" 2> /dev/null || :; } | sort -u
}

# Kills until nobody is left: whoever dies last may have started another.
kill_all() { # node
  local pids
  for _ in $(seq 50); do
    pids=$(processes "$1")
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086
    kill -9 $pids 2> /dev/null || :
    sleep .1
  done
}

remove_groups() { # node
  local c
  for c in $(find /sys/fs/cgroup -depth -type d -path "*mainstay-node$1*" 2> /dev/null); do rmdir "$c" 2> /dev/null || :; done
}

unplug() { # node: its network is gone with it
  ip netns del "mainstay$1" 2> /dev/null || :
  ip link del "mainstay-n$1" 2> /dev/null || :
  ip route del "10.244.$1.0/24" 2> /dev/null || :
}

# The cable first: whoever loses its power says no farewell.
off() { # node
  ip link set "mainstay-n$1" down
  kill_all "$1"
  unplug "$1"
  remove_groups "$1"
  rm -f "$dir/containerd$1.pid" "$dir/kubelet$1.pid" "$dir/proxy$1.pid"
}

# What a machine forgets when it boots is in state; its disks it keeps.
on() { # node
  rm -rf "$dir/node$1/state"
  node "$1"
  boot "$1"
}

# Its kernel still answers, and nobody behind it: a hung machine. Whoever was just being started is stopped in the next pass.
freeze() { # node
  local pids
  for _ in 1 2 3; do
    pids=$(processes "$1")
    # shellcheck disable=SC2086
    kill -STOP $pids 2> /dev/null || :
  done
}

thaw() { # node
  local pids
  pids=$(processes "$1")
  # shellcheck disable=SC2086
  kill -CONT $pids 2> /dev/null || :
}

down() {
  local n file pid
  for file in "$dir"/kubelet*.pid "$dir"/proxy*.pid; do
    [ -f "$file" ] || continue
    pid=$(cat "$file")
    if is_ours "$pid"; then kill -9 "$pid" 2> /dev/null || :; fi
    rm -f "$file"
  done
  for n in $(seq "$(cat "$dir/nodes" 2> /dev/null || echo 0)"); do
    kill_all "$n"
    unplug "$n"
    remove_groups "$n"
  done
  [ ! -d "$dir/pki" ] || bash "$here/cluster.sh" down "$dir"
  ip link del $bridge 2> /dev/null || :
  [ ! -f "$dir/ip_forward" ] || sysctl -qw "net.ipv4.ip_forward=$(cat "$dir/ip_forward")"
  rm -rf "$dir"/node[0-9]* "$dir/ip_forward" "$dir/nodes" "$dir/log" "$dir"/*.pid
}

case $what in
  up) up "${1:-3}" ;;
  load) load "$@" ;;
  down) down ;;
  off | on | freeze | thaw) $what "$1" ;;
  cut) ip link set "mainstay-n$1" down ;;
  heal) ip link set "mainstay-n$1" up ;;
  *) echo "nodes.sh up DIR NODES | load DIR IMAGE.tar... | down DIR | off|on|freeze|thaw|cut|heal DIR NODE" >&2; exit 2 ;;
esac
