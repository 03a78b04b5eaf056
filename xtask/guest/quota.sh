# Runs the tests of capacity and of quotas of users on file systems with project quotas, which not every machine's kernel has. What does without
# them is tested on the host.
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

export PLIMSOLL_TESTS_ONLY_PROJECTS=1
/job/capacity --nocapture --test-threads=1 --exact volume_stays_within_capacity volume_switches_between_kernel_and_own_count \
    make_can_be_repeated_after_crash remove_can_be_repeated_after_crash \
    kernel_counts_files_and_snapshots_apart full_volume_of_the_kernel_lets_files_be_removed \
    records_of_before_project_quotas_are_counted_by_this_process 2>&1 | tee /tmp/log
[ "${PIPESTATUS[0]}" -eq 0 ] || fail "a test failed"
! grep -q 'cannot be had here' /tmp/log || fail "a file system is missing"
for expected in '^running 7 tests' 'on XfsProjects' 'on Ext4Projects'; do
    grep -q "$expected" /tmp/log || fail "the tests did not say '$expected'"
done

/job/owner_quotas --nocapture --test-threads=1 --exact count_begins_exactly_among_writers orderly_end_saves_the_table 2>&1 | tee /tmp/log
[ "${PIPESTATUS[0]}" -eq 0 ] || fail "a test of quotas failed"
grep -q '^running 2 tests' /tmp/log || fail "the tests of quotas did not run"
