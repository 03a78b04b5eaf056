# The kernel's clients of NFS and SMB while the server moves between machines, directed by the host.
#
# Parameters (environment): HOST, CONTROL, NAME: see commands.sh; OWN, the address of the guest with its prefix length; SERVER, its
# share or export SHARE; LOGIN and PASSWORD of the SMB user. A mount is 3, 4.0, 4.1, 4.2 or cifs, at /mnt/MOUNT.

. /job/checks
. /job/commands

locked_bytes=$((1 << 30))

attach() { # mount
    mkdir -p "/mnt/$1"
    case $1 in
    cifs)
        mount -i -t cifs "//$SERVER/$SHARE" /mnt/cifs \
            -o "ip=$SERVER,username=$LOGIN,password=$PASSWORD,vers=3.1.1,hard,persistenthandles"
        grep ' /mnt/cifs ' /proc/mounts | grep -q persistenthandles
        ;;
    3) mount -t nfs -o vers=3,proto=tcp,mountproto=tcp,hard "$SERVER:/$SHARE" /mnt/3 ;;
    *) mount -t nfs -o "vers=$1,proto=tcp,hard" "$SERVER:/$SHARE" "/mnt/$1" ;;
    esac
}

begin() { # mount
    (
        status=0
        perl /job/failover.pl write "$1" "$locked_bytes" || status=$?
        echo $status >"/tmp/$1.status"
    ) >"/tmp/$1.log" 2>&1 5>&- &
    until grep -q other "/tmp/$1.acknowledged"; do
        [ ! -e "/tmp/$1.status" ] || ended "$1"
        sleep 0.1
    done
}

now() { awk '{ print int($1 * 1000) }' /proc/uptime; }

# Waits until every writer has so many acknowledgments that are later than this time.
progress() { # count, milliseconds, mounts…
    local count=$1 from=$2 mount
    shift 2
    for mount in "$@"; do
        until [ "$(awk -v from="$from" '$1 > from' "/tmp/$mount.acknowledged" | wc -l)" -ge "$count" ]; do
            [ ! -e "/tmp/$mount.status" ] || { echo "the writer of $mount ended: $(tail -n 5 "/tmp/$mount.log")"; return 1; }
            sleep 0.2
        done
    done
}

# The longest time between two acknowledgments that ended after `from`.
stall() { # mount, milliseconds
    awk -v from="$2" '
        last && $1 > from && $1 - last > longest { longest = $1 - last }
        { last = $1 }
        END { print longest }' "/tmp/$1.acknowledged"
}

# Checks through another mount, which is another client to the server, that it cannot have the lock, but what is beside it.
exclusive() { # mount, the other mount
    local file=/mnt/$2/$1.locked
    refused 'Resource temporarily unavailable' try "$file" 4096 1
    try "$file" "$locked_bytes" 1
}

retried() { grep -c '^retried' "/tmp/$1.log" || true; }

verify() { # mount
    umount "/mnt/$1"
    attach "$1"
    perl /job/failover.pl verify "$1"
    umount "/mnt/$1"
}

# The kernel reports a lock or an open file that it did not get back.
nothing_lost() { ! dmesg | grep -iE 'reclaim failed|failed to reclaim|lost .* lock|not responding, timed out'; }

modprobe -a nfs nfsv3 cifs || exit 1
ip address flush dev eth0
ip address add "$OWN" dev eth0
: >/etc/resolv.conf
mkdir -p /run/rpcbind /run/sendsigs.omit.d
rpcbind -w
rpc.statd
serve_commands
exit 0
