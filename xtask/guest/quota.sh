# Runs the tests of capacity where the kernel has project quotas, which not every machine's kernel has.
#
# Parameters (environment): DISKS, where the tests make their disks.

fail() {
    echo "FAIL quota $*"
    exit 1
}

modprobe -a loop xfs ext4 quota_v2
mkdir -p "$DISKS" /memory
mount -t tmpfs -o size=2000m tmpfs /memory
# The tests' own disk is to be a disk, so that files without a home in memory are tested too.
truncate -s 1500m /memory/disk
mkfs.ext4 -q /memory/disk && mount -t ext4 -o loop /memory/disk "$DISKS" || fail "no disk for the tests"

# tmpfs keeps no extended attributes for ordinary users before Linux 6.6.
/job/capacity --nocapture --test-threads=1 --skip an_ordinary_user 2>&1 | tee /tmp/log
[ "${PIPESTATUS[0]}" -eq 0 ] || fail "a test failed"
! grep -q 'cannot be had here' /tmp/log || fail "a file system is missing"
