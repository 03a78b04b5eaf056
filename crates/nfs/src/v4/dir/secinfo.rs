//! SECINFO and SECINFO_NO_NAME: by which flavors of RPC an object may be reached.

use super::super::compound_state::{CompoundState, OpResult};
use super::{lookup_name, parent};
use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::{Secinfo, SecinfoArgs, SecinfoNoNameArgs, SecinfoOk, SecinfoStyle};
use xdr::{Encode, Writer};

/// RFC 8881 §18.29.
pub(in crate::v4) fn secinfo(
    cx: &mut CompoundState<'_, '_>,
    args: SecinfoArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    lookup_name(cx, args.name)?;
    flavors(cx, w)
}

/// RFC 8881 §18.45.
pub(in crate::v4) fn secinfo_no_name(
    cx: &mut CompoundState<'_, '_>,
    args: SecinfoNoNameArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    match args {
        SecinfoStyle::CurrentFh => drop(cx.current_filehandle()?),
        SecinfoStyle::Parent => drop(parent(cx)?),
    }
    flavors(cx, w)
}

/// The same everywhere. Since 4.1 there is no current filehandle behind it (RFC 8881 §2.6.3.1.1.8).
fn flavors(cx: &mut CompoundState<'_, '_>, w: &mut Writer<'_>) -> OpResult {
    if cx.request.minor > 0 {
        cx.current = None;
    }
    SecinfoOk([AuthFlavor::SYS, AuthFlavor::NONE].map(Secinfo::Flavor).to_vec()).encode(w);
    Ok(())
}
