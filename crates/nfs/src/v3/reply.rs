//! The results of procedures: success, or failure with a status.

use crate::call::CallResult;
use crate::status::nfs3::status;
use nfs_wire::v3::{Reply, Status};
use vfs::{FsError, Wait};
use xdr::{Encode, Writer};

#[inline]
pub(crate) fn accept(w: &mut Writer<'_>, ok: &impl Encode) -> CallResult {
    Status::OK.encode(w);
    ok.encode(w);
    Ok(())
}

/// Writes the results of failure, unless the call is run again.
pub(crate) fn refuse<F: Encode>(w: &mut Writer<'_>, error: FsError, fail: F) -> CallResult {
    match error {
        FsError::Wait(wait @ (Wait::Storage | Wait::Recall)) => Err(wait),
        error => {
            Reply::<(), F>::Err(status(error), fail).encode(w);
            Ok(())
        }
    }
}
