# Installs the package under systemd, sets the service up, uses a volume with the kernel's client, upgrades, removes and
# purges. The volume and its file must stay.
#
# Parameters (environment): LATER, the version of /job/later.deb.

. /job/checks

UNIT=plimsoll.service
CONFIG=/etc/plimsoll/plimsoll.toml
DATA=/var/lib/plimsoll
# The exposure of the unit, in tenths.
EXPOSURE_MAX=40
export DEBIAN_FRONTEND=noninteractive

# The image has the kernel's own NFS server, for other tests.
systemctl mask --now nfs-server.service
# It may be starting just now.
until [ "$(cat /proc/fs/nfsd/threads 2>/dev/null || echo 0)" -eq 0 ] && ! ss -Htln | grep -q ':2049 '; do
    rpc.nfsd 0
    sleep 1
done
modprobe -a nfs nfsv4 cifs
mkdir -p /data /mnt/v1 /mnt/smb
umask 077
echo secret-1 >/tmp/secret
umask 022
head -c 4000000 /dev/urandom >/tmp/file

is_active() { same "$(systemctl is-active $UNIT)" active; }
mount_volume() { mount -t nfs -o vers=4.2 127.0.0.1:/v1 /mnt/v1; }
has_file() { drop_caches; cmp /tmp/file /mnt/v1/file; }
status_says() { systemctl status $UNIT | grep -F "$1"; }

check install dpkg --install /job/plimsoll.deb
check starts-on-installation is_active
check is-enabled same "$(systemctl is-enabled $UNIT)" enabled
check listens-on-loopback-only status_says "NFS on 127.0.0.1:2049, API at http://127.0.0.1:2050"
foreign_address() { ! plimsoll setup --address 192.0.2.1 --protocols nfs --tls none 2>/tmp/refused && grep -q 'does not have the address' /tmp/refused && is_active; }
check setup-refuses-the-address-of-another-machine foreign_address
check setup plimsoll setup --address 0.0.0.0 --protocols nfs,smb --tls none --user alice --uid 1234 --password-file /tmp/secret
check setup-keeps-the-packaged-file test -s $CONFIG.backup-1
check is-active is_active
check has-the-address status_says "NFS on 0.0.0.0:2049, SMB on 0.0.0.0:445"
check has-the-user plimsoll user show alice
check data-are-private same "$(stat -c %a $DATA)" 700

check pool plimsoll pool create p1 --level plimsoll/unlimited --size 1GiB
check volume plimsoll volume create v1 --pool p1 --size 512MiB --protocols nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb --allow 127.0.0.1
check mount mount_volume
check write cp /tmp/file /mnt/v1/file
# The other versions of NFS, on this kernel as a server too.
over_version() {
    mount -t nfs -o "vers=$1,proto=tcp$2" 127.0.0.1:/v1 /mnt/other &&
        cp /tmp/file "/mnt/other/over-$1" && mv "/mnt/other/over-$1" "/mnt/other/renamed-$1" && sync -f /mnt/other &&
        cmp /tmp/file "/mnt/v1/renamed-$1" && umount /mnt/other
}
mkdir -p /mnt/other
check nfs-3 over_version 3 ,nolock,port=2049,mountport=2049
check nfs-4.0 over_version 4.0
check nfs-4.1 over_version 4.1
# What the hardening of the unit could refuse.
shared_directory() { mkdir /mnt/v1/team; chgrp 1234 /mnt/v1/team; chmod 2775 /mnt/v1/team; same "$(stat -c %a:%g /mnt/v1/team)" 2775:1234; }
device() { mknod /mnt/v1/device c 1 3; same "$(stat -c %F:%t:%T /mnt/v1/device)" "character special file:1:3"; }
owner() { touch /mnt/v1/owned; chown 4321:4321 /mnt/v1/owned; chmod 600 /mnt/v1/owned; same "$(stat -c %u:%a /mnt/v1/owned)" 4321:600; }
attribute() { setfattr -n user.color -v blue /mnt/v1/file; same "$(getfattr --only-values -n user.color /mnt/v1/file 2>/dev/null)" blue; }
check directory-with-group-bit shared_directory
check device device
check owner owner
! command -v setfattr >/dev/null || check extended-attribute attribute
no_denials() { ! journalctl -u $UNIT | grep -iE 'operation not permitted|SECCOMP|EPERM'; }
check log-has-no-denials no_denials

# A write over NFS takes back the lease that a file has over SMB.
mount_smb() { mount -i -t cifs //127.0.0.1/v1 /mnt/smb -o vers=3.1.1,ip=127.0.0.1,username=alice,password=secret-1; }
write_to_open_file() {
    chmod 755 /mnt/v1 && chmod 666 /mnt/v1/file && cat /mnt/smb/file >/dev/null && exec 3<>/mnt/smb/file && cat /tmp/file >/mnt/v1/file
}
has_no_defects() { ! journalctl -u $UNIT --no-pager | grep -F 'a defect'; }
check mount-over-smb mount_smb
check write-breaks-a-lease write_to_open_file
exec 3>&-
check break-is-no-defect has_no_defects
umount /mnt/smb

check restart systemctl restart $UNIT
check read-after-restart has_file
check upgrade dpkg --install /job/later.deb
check has-the-later-version same "$(dpkg-query -W -f '${Version}' plimsoll)" "$LATER"
check is-active-after-the-upgrade is_active
check read-after-the-upgrade has_file
check keeps-the-configuration grep -q 'Written by "plimsoll setup"' $CONFIG
systemd-analyze security --offline=true --no-pager /usr/lib/systemd/system/$UNIT | tail -n 1
check exposure systemd-analyze security --offline=true --threshold=$EXPOSURE_MAX --no-pager /usr/lib/systemd/system/$UNIT

umount /mnt/v1
removes() { dpkg --remove plimsoll 2>&1 | grep -F "stay in $DATA"; }
purges() { dpkg --purge plimsoll 2>&1 | grep -F "stay in $DATA"; }
check remove removes
check ends-with-the-package same "$(systemctl is-active $UNIT)" inactive
check keeps-the-configuration-until-purge test -s $CONFIG
check purge purges
check purge-removes-the-configuration absent /etc/plimsoll
check data-stay test -s $DATA/plimsoll.db
check install-again dpkg --install /job/later.deb
check mount-again mount_volume
check file-is-still-there has_file
umount /mnt/v1
[ "$failures" -eq 0 ] || { journalctl -u $UNIT -n 40 --no-pager; cat $CONFIG; }
[ "$failures" -eq 0 ]
