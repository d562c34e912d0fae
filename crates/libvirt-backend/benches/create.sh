#!/bin/sh
# What a person would do for a machine, on the host itself: create.sh make NAME TEMPLATE OLD | create.sh remove NAME
# TEMPLATE describes a domain called OLD, as the provider made it.
set -eu
name=$2
images=/var/lib/libvirt/images
case $1 in
  make)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    qemu-img create -q -f qcow2 -F qcow2 -b $images/tiny.qcow2 "$images/$name.qcow2"
    printf 'instance-id: %s\nlocal-hostname: %s\n' "$name" "$name" >"$work/meta-data"
    echo '#cloud-config' >"$work/user-data"
    printf 'version: 2\nethernets: {card: {match: {name: "e*"}, dhcp4: true}}\n' >"$work/network-config"
    genisoimage -quiet -V cidata -J -R -o "$images/$name-seed.iso" "$work/meta-data" "$work/user-data" "$work/network-config"
    sed "/<uuid>/d; /<mac /d; s/$4-[0-9a-f]*\\(-seed\\.iso\\|\\.qcow2\\)/$name\\1/; s/$4/$name/g" "$3" >"$work/domain.xml"
    virsh -q define "$work/domain.xml"
    virsh -q start "$name"
    until virsh -q qemu-agent-command "$name" '{"execute": "guest-ping"}' >/dev/null 2>&1; do
      sleep 0.25
    done
    ;;
  remove)
    virsh -q destroy "$name"
    virsh -q undefine "$name"
    rm "$images/$name.qcow2" "$images/$name-seed.iso"
    ;;
esac
