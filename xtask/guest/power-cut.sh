# Serves the disk under test from the guest until the power goes.
#
# Parameters (environment): FS, ext4 or xfs; SERVER, the server's command line; without it the kernel's own NFS server
# serves, with MOUNT on MOUNT_PORT, acknowledging as HOW says, sync or async. OWNER: whose the export is, who logs in over SMB.

fail() {
    echo "FAIL power-cut $*"
    exit 1
}

mkdir /data
[ "$FS" != xfs ] || modprobe xfs
# Mounting replays the journal; that it can is part of the test.
mount -t "$FS" /dev/vdc /data || fail "the file system cannot be mounted"
mkdir -p /data/export
if [ -n "$OWNER" ]; then
    chown "$OWNER:$OWNER" /data/export
    chmod 600 /job/users.toml
fi

if [ -n "$SERVER" ]; then
    $SERVER &
    server=$!
    echo "PLIMSOLL-GUEST-READY"
    wait $server
    fail "the server ended with status $?"
fi

modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd || fail "no kernel server"
mkdir -p /run/rpcbind /var/lib/nfs/v4recovery
rpcbind -w || fail "no rpcbind"
echo "/data/export *(rw,$HOW,no_root_squash,insecure,no_subtree_check,fsid=77)" >/etc/exports
exportfs -ra || fail "cannot export"
rpc.nfsd -N 4 8 || fail "nfsd does not start"
rpc.mountd -p "$MOUNT_PORT" || fail "mountd does not start"
echo "PLIMSOLL-GUEST-READY"
sleep 3600
