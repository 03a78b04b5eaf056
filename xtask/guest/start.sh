#!/bin/bash
# First process of the guest once its root is mounted. It runs /job/script with the parameters of /job/env and reports the
# exit status on the serial console. Then it powers the machine off. With the parameter JOBS it has no script of its own:
# each line that it reads from the console announces a job on the disk /dev/vdc, and it cleans up after each. With the
# parameter INIT=systemd it hands over to systemd, which runs it again as a unit.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
exec </dev/null >/dev/ttyS0 2>&1

up() { echo "PLIMSOLL-GUEST-UP $(cut -d ' ' -f 1 /proc/uptime)"; }

mount_memory() {
    mkdir -p /dev/shm
    local directory
    for directory in /tmp /run /dev/shm; do
        mount -t tmpfs tmpfs "$directory"
    done
    mkdir -p /run/lock
}

connect() {
    ip link set lo up
    # Where a guest has a network of its own, NETWORK is that of its first interface.
    local network number
    network=$(. /job/env && echo "${NETWORK:-2}")
    for number in 0 1 2 3; do
        [ -e "/sys/class/net/eth$number" ] || continue
        ip address add "10.0.$((number + network)).15/24" dev "eth$number"
        ip link set "eth$number" up
    done
    [ ! -e /sys/class/net/eth0 ] || ip route add default via "10.0.$network.2"
}

run_script() {
    (
        set -a
        . /job/env
        set +a
        hostname "${NAME:-guest}"
        cd /tmp
        exec bash /job/script
    )
}

report() { # exit status
    local status=$1
    # A kernel that complained is a failure too: a BUG, an oops or a hung task is never normal here.
    if dmesg | grep -E 'BUG:|Oops|Call Trace|blocked for more than'; then
        echo "guest: the kernel complained"
        [ "$status" -ne 0 ] || status=124
    fi
    # The next job reports only its own complaints.
    dmesg --clear
    echo "PLIMSOLL-GUEST-EXIT $status"
}

settings() { sysctl --all --pattern '^net\.(core|ipv4\.tcp)' 2>/dev/null; }

# Ends all other processes, and removes mounts, loop devices, changed settings and cached data. Fails if a mount remains.
clean_up() {
    local directory
    for _ in $(seq 20); do
        kill -s KILL -- -1
        # Mounts are listed in the order in which they were made.
        tail -n +$((mounts_at_boot + 1)) /proc/mounts | cut -d ' ' -f 2 | tac | while read -r directory; do
            umount "$(printf '%b' "$directory")"
        done
        [ "$(wc -l </proc/mounts)" -gt "$mounts_at_boot" ] || break
        sleep 0.5
    done 2>/remaining
    losetup --detach-all
    settings >/settings
    grep -vxFf /settings /settings.stock | sysctl --quiet --load=-
    sync
    echo 3 >/proc/sys/vm/drop_caches
    [ "$(wc -l </proc/mounts)" -eq "$mounts_at_boot" ] || { tail -n 3 /remaining; return 1; }
}

run_jobs() {
    mounts_at_boot=$(wc -l </proc/mounts)
    settings >/settings.stock
    up
    local status is_clean
    while read -r _ </dev/ttyS0; do
        mount_memory
        mount -t tmpfs tmpfs /job
        blockdev --flushbufs /dev/vdc
        tar -C /job -xf /dev/vdc
        up
        run_script
        status=$?
        # The server is still there, so that mounts can end.
        is_clean=1
        clean_up || is_clean=
        report "$status"
        [ -n "$is_clean" ] || return
    done
}

start_systemd() {
    local unit
    # Without a D-Bus daemon and a terminal these would only restart.
    for unit in systemd-logind.service getty.target systemd-timesyncd.service; do
        ln -sf /dev/null "/etc/systemd/system/$unit"
    done
    cat >/etc/systemd/system/job.service <<'UNIT'
[Service]
ExecStart=/job/start as-a-unit
StandardOutput=null
UNIT
    mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -sf ../job.service /etc/systemd/system/multi-user.target.wants/job.service
    exec /lib/systemd/systemd --unit=multi-user.target --show-status=no
}

main() {
    if [ "${1:-}" = as-a-unit ]; then
        up
        run_script
        report $?
        exec busybox poweroff -f
    fi
    connect
    [ "$(. /job/env && echo "$INIT")" != systemd ] || start_systemd
    if [ -n "$(. /job/env && echo "$JOBS")" ]; then
        run_jobs
    else
        mount_memory
        up
        run_script
        report $?
    fi
    exec busybox poweroff -f
}
main "$@"
