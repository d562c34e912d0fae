#!/usr/bin/env bash
# One libvirt host in namespaces of its own, with everything it keeps below a folder: host.sh DIR
#
# Runs in the foreground. It is reached at  qemu+unix:///system?socket=DIR/run/libvirt-sock  and has a pool `default`
# and a network `default`. SIGKILL of this process is a loss of power: every machine dies with it; started again on the
# same folder, the host boots. What the machine itself has of libvirt is not touched.
#
# Needs root and Debian's libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils
# dnsmasq-base iptables iproute2.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: host.sh DIR" >&2
  exit 64
fi
dir=$(realpath -m "$1")
mkdir -p "$dir"/{run,etc,lib,log,cache}
if [ ! -e "$dir/etc/libvirtd.conf" ]; then
  cp -a /etc/libvirt/. "$dir/etc/"
  # Of the configuration, not what somebody defined on the machine itself.
  rm -f "$dir"/etc/qemu/*.xml "$dir"/etc/qemu/autostart/* "$dir"/etc/storage/*.xml "$dir"/etc/storage/autostart/*
  cat >"$dir/etc/libvirtd.conf" <<'CONF'
auth_unix_rw = "none"
CONF
  cat >"$dir/etc/qemu.conf" <<'CONF'
# A container may have neither AppArmor nor the users of a real host.
security_driver = "none"
user = "root"
group = "root"
CONF
fi
mkdir -p "$dir"/lib/{images,boot,network,dnsmasq,qemu/{nvram,save,snapshot,checkpoint,channel/target,dump,ram}} "$dir"/log/qemu
# Left by a host that lost power.
rm -f "$dir"/run/*.pid "$dir"/run/*-sock*

define='
  until virsh -c qemu:///system uri >/dev/null 2>&1; do sleep 0.1; done
  if ! virsh -c qemu:///system pool-info default >/dev/null 2>&1; then
    virsh -q -c qemu:///system pool-define-as default dir --target /var/lib/libvirt/images
    virsh -q -c qemu:///system pool-autostart default
  fi
  virsh -q -c qemu:///system pool-start default 2>/dev/null || :
  virsh -q -c qemu:///system net-info default >/dev/null 2>&1 ||
    virsh -q -c qemu:///system net-define /usr/share/libvirt/networks/default.xml
  virsh -q -c qemu:///system net-autostart default
  virsh -q -c qemu:///system net-start default 2>/dev/null || :
  touch /run/libvirt/lab-ready
'
rm -f "$dir/run/lab-ready"

export dir define
exec unshare --mount --net --pid --fork --kill-child=KILL --mount-proc bash -euc '
  mount --make-rprivate /
  mount -t tmpfs tmpfs /run
  mkdir -p /run/libvirt /run/lock
  mount --bind "$dir/run" /run/libvirt
  mount --bind "$dir/etc" /etc/libvirt
  mount --bind "$dir/lib" /var/lib/libvirt
  mount --bind "$dir/log" /var/log/libvirt
  mount --bind "$dir/cache" /var/cache/libvirt
  ip link set lo up
  # What somebody wants to have done on the host before its daemon starts.
  if [ -x "$dir/before" ]; then "$dir/before"; fi
  virtlogd -d
  libvirtd &
  bash -uc "$define" &
  # Whoever lost its parent comes to us; the daemon may end and be started again beside us.
  while :; do wait || :; sleep 1; done
'
