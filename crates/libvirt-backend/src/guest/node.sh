# What only the node itself can say and do in its cluster, with its own credentials.
#   node.sh ready                 prints Ready, or what is missing
#   node.sh drain SECONDS         leaves the cluster: cordon, evict, leave, forget
set -u
verb=$1

config=
for file in /etc/kubernetes/kubelet.conf /var/lib/kubelet/kubeconfig /etc/kubernetes/kubelet.kubeconfig \
  /var/lib/rancher/k3s/agent/kubelet.kubeconfig /var/lib/rancher/rke2/agent/kubelet.kubeconfig \
  /var/snap/microk8s/current/credentials/kubelet.config /var/lib/k0s/kubelet.conf; do
  if [ -s "$file" ]; then
    config=$file
    break
  fi
done

kubectl=
for program in kubectl /usr/local/bin/kubectl /usr/bin/kubectl /opt/bin/kubectl \
  /var/lib/rancher/rke2/bin/kubectl /snap/bin/microk8s.kubectl; do
  if command -v "$program" >/dev/null 2>&1; then
    kubectl=$program
    break
  fi
done
if [ -z "$kubectl" ] && command -v k3s >/dev/null 2>&1; then
  kubectl='k3s kubectl'
fi

# Bounded, so that an API server that does not answer holds up nothing. What kubectl remembers of a cluster goes with it.
cache=/run/bigfleet-kubectl
ask() {
  limit=$1
  shift
  # It may itself take a while to begin, where the machine is emulated or busy.
  timeout $((limit + 30)) $kubectl --kubeconfig="$config" --cache-dir="$cache" --request-timeout="${limit}s" "$@"
}

# The name under which this kubelet registered, never one guessed from outside: what it was told, what its certificate
# says, or what the API server takes it for (kubectl before 1.28 cannot ask that).
node() {
  # Without a program for each process: there are hundreds, and this is asked every few seconds.
  for process in /proc/[0-9]*; do
    read -r program 2>/dev/null <"$process/comm" && [ "$program" = kubelet ] || continue
    name=$(tr '\0' '\n' <"$process/cmdline" | sed -n 's/^--hostname-override=//p' | head -n 1)
    if [ -n "$name" ]; then
      echo "$name"
      return
    fi
  done
  certificate=$(sed -n 's/^ *client-certificate: *//p' "$config" | head -n 1)
  name=$(openssl x509 -in "$certificate" -noout -subject -nameopt multiline 2>/dev/null |
    sed -n 's/.*commonName *= *system:node://p')
  if [ -z "$name" ]; then
    name=$(ask 10 auth whoami -o 'jsonpath={.status.userInfo.username}' 2>/dev/null)
    case $name in
      system:node:*) name=${name#system:node:} ;;
      *) name=$(sed -n 's/.*system:node:\([^ ,"]*\).*/\1/p' "$config" 2>/dev/null | head -n 1) ;;
    esac
  fi
  [ -n "$name" ] && echo "$name" || hostname | tr 'A-Z' 'a-z'
}

# The pods that have to go, `NAMESPACE NAME GOING`: neither a DaemonSet's, nor static, nor ended.
pods() {
  each='{.metadata.namespace}|{.metadata.name}|{.status.phase}|{.metadata.deletionTimestamp}|'
  each=$each'{.metadata.ownerReferences[?(@.controller==true)].kind}|{.metadata.annotations.kubernetes\.io/config\.mirror}'
  listed=$(ask 20 get pods --all-namespaces --field-selector "spec.nodeName=$1" -o "jsonpath={range .items[*]}$each{\"\n\"}{end}") ||
    return 1
  echo "$listed" | while IFS='|' read -r namespace pod phase going owner mirror; do
    case $pod,$phase,$owner,$mirror in
      ,* | *,Succeeded,* | *,Failed,* | *,DaemonSet,* | *,*,*,?*) ;;
      *) echo "$namespace $pod $going" ;;
    esac
  done
}

# Asks for the eviction of pods, a few at a time: one that its budget holds back must not hold back the others.
evict() {
  count=0
  while read -r namespace pod going; do
    [ -z "$going" ] || continue
    body='{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"namespace":"'$namespace'","name":"'$pod'"}}'
    echo "$body" | ask 10 create --raw "/api/v1/namespaces/$namespace/pods/$pod/eviction" -f - >/dev/null &
    count=$((count + 1))
    [ $((count % 4)) -ne 0 ] || wait
  done
  wait
}

# Empties a node for so many seconds; fails if something is left then. Not by `kubectl drain`, which reads every DaemonSet
# first: a kubelet may not, and it would give up before it had evicted anything.
empty() {
  end=$(($(date +%s) + $2))
  while :; do
    if left=$(pods "$1"); then
      [ -n "$left" ] || return 0
      echo "$left" | evict
    fi
    if [ "$(date +%s)" -ge "$end" ]; then
      echo "not empty after $2 s:" ${left:-the API server does not tell}
      return 1
    fi
    sleep 2
  done
}

case $verb in
  ready)
    if [ -z "$kubectl" ]; then
      echo "no kubectl in the image: add it, or /opt/bigfleet/ready, or set guest.readiness"
      exit 2
    fi
    if [ -z "$config" ]; then
      echo "the kubelet has no credentials yet"
      exit 1
    fi
    name=$(node)
    status=$(ask 10 get node "$name" -o 'jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.reason}: {.message}{end}' 2>&1) || {
      echo "node $name: $status"
      exit 1
    }
    case $status in
      True*) echo Ready ;;
      *)
        echo "node $name is not Ready: ${status:-it has no such condition yet}"
        exit 1
        ;;
    esac
    ;;
  drain)
    grace=$2
    status=0
    if [ -n "$kubectl" ] && [ -n "$config" ]; then
      name=$(node)
      ask 10 cordon "$name" || echo "$name could not be cordoned"
      # Honours budgets until the time is up. A node that cannot be emptied leaves all the same, and says so.
      [ "$grace" -eq 0 ] || empty "$name" "$grace" || status=1
      ask 10 delete node "$name" --wait=false || echo "the Node object was not deleted; its cluster has to"
    fi
    for unit in kubelet k3s-agent rke2-agent; do
      systemctl disable --now "$unit" 2>/dev/null || :
    done
    # Containers outlive the kubelet.
    if command -v kubeadm >/dev/null 2>&1; then
      timeout 60 kubeadm reset --force 2>&1 | tail -n 5
    elif command -v k3s-agent-uninstall.sh >/dev/null 2>&1; then
      timeout 60 k3s-agent-uninstall.sh 2>&1 | tail -n 5
    elif command -v crictl >/dev/null 2>&1; then
      timeout 60 crictl rmp --all --force || status=1
    elif [ -S /run/containerd/containerd.sock ] || [ -S /run/crio/crio.sock ]; then
      echo "the image has neither kubeadm nor crictl to remove the containers with"
      status=1
    fi
    rm -rf /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/pki /var/lib/kubelet/* \
      /etc/cni/net.d/* "$cache" 2>/dev/null
    exit $status
    ;;
esac
