//! The functions of libcephfs.

use super::table::functions;
use super::types::{Directory, Fh, Inode, MountInfo, Statx, UserPerm, VersionedInode};
use libc::{c_char, c_int, c_uint, dirent, flock, gid_t, mode_t, uid_t};
use std::ffi::c_void;

type Mount = *mut MountInfo;
type Perms = *const UserPerm;

functions! {
    // The ABI of Ceph 16 to 19.
    "libcephfs.so.2", "ceph_";
    create(*mut Mount, *const c_char) -> c_int;
    conf_read_file(Mount, *const c_char) -> c_int;
    conf_set(Mount, *const c_char, *const c_char) -> c_int;
    init(Mount) -> c_int;
    select_filesystem(Mount, *const c_char) -> c_int;
    mount(Mount, *const c_char) -> c_int;
    unmount(Mount) -> c_int;
    release(Mount) -> c_int;
    set_uuid(Mount, *const c_char);
    start_reclaim(Mount, *const c_char, c_uint) -> c_int;
    finish_reclaim(Mount);
    sync_fs(Mount) -> c_int;
    userperm_new(uid_t, gid_t, c_int, *mut gid_t) -> *mut UserPerm;
    userperm_destroy(*mut UserPerm);
    ll_lookup_root(Mount, *mut *mut Inode) -> c_int;
    ll_lookup_vino(Mount, VersionedInode, *mut *mut Inode) -> c_int;
    ll_lookup(Mount, *mut Inode, *const c_char, *mut *mut Inode, *mut Statx, c_uint, c_uint, Perms) -> c_int;
    ll_put(Mount, *mut Inode) -> c_int;
    ll_getattr(Mount, *mut Inode, *mut Statx, c_uint, c_uint, Perms) -> c_int;
    ll_setattr(Mount, *mut Inode, *mut Statx, c_int, Perms) -> c_int;
    ll_open(Mount, *mut Inode, c_int, *mut *mut Fh, Perms) -> c_int;
    ll_close(Mount, *mut Fh) -> c_int;
    ll_read(Mount, *mut Fh, i64, u64, *mut c_char) -> c_int;
    ll_write(Mount, *mut Fh, i64, u64, *const c_char) -> c_int;
    ll_fsync(Mount, *mut Fh, c_int) -> c_int;
    ll_sync_inode(Mount, *mut Inode, c_int) -> c_int;
    ll_fallocate(Mount, *mut Fh, c_int, i64, i64) -> c_int;
    ll_setlk(Mount, *mut Fh, *mut flock, u64, c_int) -> c_int;
    ll_create(
        Mount, *mut Inode, *const c_char, mode_t, c_int, *mut *mut Inode, *mut *mut Fh, *mut Statx, c_uint, c_uint, Perms,
    ) -> c_int;
    ll_mkdir(Mount, *mut Inode, *const c_char, mode_t, *mut *mut Inode, *mut Statx, c_uint, c_uint, Perms) -> c_int;
    ll_mknod(
        Mount, *mut Inode, *const c_char, mode_t, u64, *mut *mut Inode, *mut Statx, c_uint, c_uint, Perms,
    ) -> c_int;
    ll_symlink(
        Mount, *mut Inode, *const c_char, *const c_char, *mut *mut Inode, *mut Statx, c_uint, c_uint, Perms,
    ) -> c_int;
    ll_readlink(Mount, *mut Inode, *mut c_char, usize, Perms) -> c_int;
    ll_link(Mount, *mut Inode, *mut Inode, *const c_char, Perms) -> c_int;
    ll_unlink(Mount, *mut Inode, *const c_char, Perms) -> c_int;
    ll_rmdir(Mount, *mut Inode, *const c_char, Perms) -> c_int;
    ll_rename(Mount, *mut Inode, *const c_char, *mut Inode, *const c_char, Perms) -> c_int;
    ll_opendir(Mount, *mut Inode, *mut *mut Directory, Perms) -> c_int;
    ll_releasedir(Mount, *mut Directory) -> c_int;
    seekdir(Mount, *mut Directory, i64);
    telldir(Mount, *mut Directory) -> i64;
    readdirplus_r(Mount, *mut Directory, *mut dirent, *mut Statx, c_uint, c_uint, *mut *mut Inode) -> c_int;
    ll_getxattr(Mount, *mut Inode, *const c_char, *mut c_void, usize, Perms) -> c_int;
    ll_setxattr(Mount, *mut Inode, *const c_char, *const c_void, usize, c_int, Perms) -> c_int;
    ll_listxattr(Mount, *mut Inode, *mut c_char, usize, *mut usize, Perms) -> c_int;
    ll_removexattr(Mount, *mut Inode, *const c_char, Perms) -> c_int;
    ll_statfs(Mount, *mut Inode, *mut libc::statvfs) -> c_int;
}
