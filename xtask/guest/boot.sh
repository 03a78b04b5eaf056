#!/bin/busybox sh
# First process of the guest, in the initramfs: load the disk and network drivers,
# mount the root, unpack the job disk, and hand over to the job's own start script.
export PATH=/bin
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
for module in $(/bin/busybox cat /modules/order); do
    /bin/busybox insmod "/modules/$module"
done
# The devices appear while the drivers probe; under emulation that takes a moment.
tries=0
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then
        echo "guest: the root or the job disk did not appear"
        echo "PLIMSOLL-GUEST-EXIT 125"
        exec /bin/busybox poweroff -f
    fi
    /bin/busybox usleep 100000
done
/bin/busybox mount -t ext4 -o noatime,nobarrier /dev/vda /root
/bin/busybox mount -t tmpfs tmpfs /root/job
/bin/busybox tar -xf /dev/vdb -C /root/job
for dir in dev proc sys; do
    /bin/busybox mount --move "/$dir" "/root/$dir"
done
exec /bin/busybox switch_root /root /job/start
