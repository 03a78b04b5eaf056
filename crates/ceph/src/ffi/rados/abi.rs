//! Compares the declarations of this folder with the header of librados.

use super::library::{CREATE_IF_MISSING, CREATE_NEW, EQUAL, FAIL_IF_FULL, TABLE};
use crate::ffi::header::{compile, program, require_equal};

/// All of them are `void *` in C, so that the compiler does not tell them apart.
fn own_type(rust: &str) -> Option<&'static str> {
    Some(match rust {
        "RawCluster" => "rados_t",
        "RawPool" => "rados_ioctx_t",
        "RawWrite" => "rados_write_op_t",
        "RawRead" => "rados_read_op_t",
        "RawPairs" => "rados_omap_iter_t",
        _ => return None,
    })
}

#[test]
#[ignore = "needs the header of librados: cargo xtask ceph"]
fn declarations_are_those_of_the_header() {
    let mut c = program(&["time.h", "rados/librados.h"], &TABLE, own_type);
    let flag = |number| usize::try_from(number).expect("a small number");
    require_equal(&mut c, "LIBRADOS_CMPXATTR_OP_EQ", usize::from(EQUAL));
    require_equal(&mut c, "LIBRADOS_CREATE_EXCLUSIVE", flag(CREATE_NEW));
    require_equal(&mut c, "LIBRADOS_CREATE_IDEMPOTENT", flag(CREATE_IF_MISSING));
    require_equal(&mut c, "LIBRADOS_OPERATION_FULL_TRY", flag(FAIL_IF_FULL));
    compile(&c);
}
