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

# The name under which this kubelet registered, never one guessed from outside.
node() {
  for process in /proc/[0-9]*/cmdline; do
    name=$(tr '\0' '\n' <"$process" 2>/dev/null | sed -n '1{/kubelet$/!q};s/^--hostname-override=//p' | head -n 1)
    if [ -n "$name" ]; then
      echo "$name"
      return
    fi
  done
  name=$(sed -n 's/.*system:node:\([^ ,"]*\).*/\1/p' "$config" 2>/dev/null | head -n 1)
  [ -n "$name" ] && echo "$name" || hostname | tr 'A-Z' 'a-z'
}

# Bounded, so that an API server that does not answer holds up nothing.
ask() {
  limit=$1
  shift
  timeout "$limit" $kubectl --kubeconfig="$config" --request-timeout="${limit}s" "$@"
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
    if [ -n "$kubectl" ] && [ -n "$config" ]; then
      name=$(node)
      ask 10 cordon "$name" || :
      if [ "$grace" -gt 0 ]; then
        # Honours budgets until the time is up. A node that cannot be emptied leaves all the same.
        timeout "$((grace + 5))" $kubectl --kubeconfig="$config" drain "$name" --ignore-daemonsets --delete-emptydir-data \
          --force --timeout="${grace}s" || echo "not empty after ${grace}s; it leaves all the same"
      fi
      ask 10 delete node "$name" || echo "the Node object was not deleted; its cluster has to"
    fi
    for unit in kubelet k3s-agent rke2-agent; do
      systemctl disable --now "$unit" 2>/dev/null || :
    done
    if command -v kubeadm >/dev/null 2>&1; then
      timeout 60 kubeadm reset --force 2>&1 | tail -n 5
    elif command -v k3s-agent-uninstall.sh >/dev/null 2>&1; then
      timeout 60 k3s-agent-uninstall.sh 2>&1 | tail -n 5
    fi
    rm -rf /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/pki /var/lib/kubelet/* \
      /etc/cni/net.d/* 2>/dev/null
    :
    ;;
esac
