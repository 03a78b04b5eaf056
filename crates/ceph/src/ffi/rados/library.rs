//! The functions of librados.

use crate::ffi::table::{functions, opaque};
use libc::{c_char, c_int, c_uchar, timespec};

opaque!(ClusterHandle, PoolHandle, WriteHandle, ReadHandle, PairsHandle);

pub(super) type RawCluster = *mut ClusterHandle;
pub(super) type RawPool = *mut PoolHandle;
pub(super) type RawWrite = *mut WriteHandle;
pub(super) type RawRead = *mut ReadHandle;
pub(super) type RawPairs = *mut PairsHandle;

/// `LIBRADOS_CMPXATTR_OP_EQ`.
pub(super) const EQUAL: u8 = 1;
/// `LIBRADOS_CREATE_EXCLUSIVE` and `LIBRADOS_CREATE_IDEMPOTENT`.
pub(super) const CREATE_NEW: c_int = 1;
pub(super) const CREATE_IF_MISSING: c_int = 0;
/// `LIBRADOS_OPERATION_FULL_TRY`: fail where the cluster is full, and do not wait for space.
pub(super) const FAIL_IF_FULL: c_int = 64;

functions! {
    // The ABI of Ceph since 0.56.
    "librados.so.2", "rados_";
    create(*mut RawCluster, *const c_char) -> c_int;
    conf_read_file(RawCluster, *const c_char) -> c_int;
    conf_set(RawCluster, *const c_char, *const c_char) -> c_int;
    connect(RawCluster) -> c_int;
    shutdown(RawCluster);
    get_instance_id(RawCluster) -> u64;
    getaddrs(RawCluster, *mut *mut c_char) -> c_int;
    wait_for_latest_osdmap(RawCluster) -> c_int;
    pool_lookup(RawCluster, *const c_char) -> i64;
    mon_command(
        RawCluster, *mut *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char,
        *mut usize,
    ) -> c_int;
    buffer_free(*mut c_char);
    ioctx_create2(RawCluster, i64, *mut RawPool) -> c_int;
    ioctx_destroy(RawPool);
    get_last_version(RawPool) -> u64;
    read(RawPool, *const c_char, *mut c_char, usize, u64) -> c_int;
    create_write_op() -> RawWrite;
    release_write_op(RawWrite);
    write_op_assert_exists(RawWrite);
    write_op_create(RawWrite, c_int, *const c_char);
    write_op_omap_cmp2(RawWrite, *const c_char, u8, *const c_char, usize, usize, *mut c_int);
    write_op_omap_set2(
        RawWrite, *const *const c_char, *const *const c_char, *const usize, *const usize, usize,
    );
    write_op_omap_rm_keys2(RawWrite, *const *const c_char, *const usize, usize);
    write_op_write_full(RawWrite, *const c_char, usize);
    write_op_write(RawWrite, *const c_char, usize, u64);
    write_op_remove(RawWrite);
    write_op_operate2(RawWrite, RawPool, *const c_char, *mut timespec, c_int) -> c_int;
    create_read_op() -> RawRead;
    release_read_op(RawRead);
    read_op_assert_version(RawRead, u64);
    read_op_omap_get_vals2(
        RawRead, *const c_char, *const c_char, u64, *mut RawPairs, *mut c_uchar, *mut c_int,
    );
    read_op_operate(RawRead, RawPool, *const c_char, c_int) -> c_int;
    omap_get_next2(RawPairs, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize) -> c_int;
    omap_get_end(RawPairs);
}
