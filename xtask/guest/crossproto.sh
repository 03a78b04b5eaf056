# One volume over SMB and NFS 3, 4.1 and 4.2, mounted beside each other: what the kernel's clients see of each other.
#
# Parameters (environment): HOST, NFS_PORT, SMB_PORT, EXPORT; LOGIN, PASSWORD, ID of the user; OPERATIONS and SEED of what is random;
# BRIEF, not empty for fewer pairs without a cache.
# At the line `PLIMSOLL-GUEST-MARK hold` the host holds files open over SMB until a file `release` is there.
# Every check prints `ok NAME` or `FAIL NAME why`; the exit status is 1 if any failed.

. /job/checks

attach() { # more options of NFS, and of SMB
    local version options
    for version in 3 4.1 4.2; do
        options="vers=$version,proto=tcp,hard,timeo=50,port=$NFS_PORT$1"
        [ "$version" != 3 ] || options="$options,mountproto=tcp,mountport=$NFS_PORT"
        mkdir -p "/mnt/nfs$version"
        mount -t nfs -o "$options" "$HOST:$EXPORT" "/mnt/nfs$version"
    done
    mkdir -p /mnt/smb
    mount -i -t cifs "//$HOST$EXPORT" /mnt/smb -o \
        "ip=$HOST,port=$SMB_PORT,vers=3.1.1,username=$LOGIN,password=$PASSWORD,uid=$ID,gid=$ID,file_mode=0644,dir_mode=0755$2"
}
detach() { umount /mnt/smb /mnt/nfs3 /mnt/nfs4.1 /mnt/nfs4.2; }
# What the program prints are checks of its own.
program() {
    perl /job/crossproto.pl "$@"
    failures=$((failures + $?))
}

modprobe -a cifs nfs nfsv3 || exit 1
# There is nobody to ask for names; who does is told so at once.
: >/etc/resolv.conf
mkdir -p /run/rpcbind /run/sendsigs.omit.d
rpcbind -w
rpc.statd

for cache in strict none; do
    check "mount.$cache" attach ,actimeo=0 ",actimeo=0,cache=$cache"
    program matrix "$cache"
    [ "$cache" = none ] || program held
    check "umount.$cache" detach
done
# As clients mount by themselves: what is opened after it was closed elsewhere is what was written there.
for cache in strict none; do
    check "mount.default.$cache" attach "" ",cache=$cache"
    program random "$cache" "$SEED" "$OPERATIONS"
    check "umount.default.$cache" detach
done
[ "$failures" -eq 0 ]
