#!/bin/bash
# First process of the guest once its root is mounted: runs /job/script with the parameters
# of /job/env, reports its exit status on the serial console, and powers the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
exec </dev/null >/dev/ttyS0 2>&1
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mkdir -p /dev/shm /run/lock
mount -t tmpfs tmpfs /dev/shm
set -a
. /job/env
set +a
hostname "${NAME:-guest}"
ip link set lo up
# Where a guest has a network of its own, NETWORK is that of its first interface.
network=${NETWORK:-2}
for number in 0 1 2 3; do
    [ -e "/sys/class/net/eth$number" ] || continue
    ip address add "10.0.$((number + network)).15/24" dev "eth$number"
    ip link set "eth$number" up
done
[ ! -e /sys/class/net/eth0 ] || ip route add default via "10.0.$network.2"
echo "PLIMSOLL-GUEST-UP $(cut -d ' ' -f 1 /proc/uptime)"
cd /tmp
bash /job/script
status=$?
# A kernel that complained is a failure too: a BUG, an oops or a hung task is never normal here.
if dmesg | grep -E 'BUG:|Oops|Call Trace|blocked for more than'; then
    echo "guest: the kernel complained"
    [ "$status" -ne 0 ] || status=124
fi
echo "PLIMSOLL-GUEST-EXIT $status"
exec busybox poweroff -f
