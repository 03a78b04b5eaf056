//! SECINFO and SECINFO_NO_NAME: by which flavors of RPC an object may be reached.

use super::super::ops::{Done, Ops};
use super::{find, parent};
use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::{Secinfo, SecinfoArgs, SecinfoNoNameArgs, SecinfoOk, SecinfoStyle};
use xdr::{Encode, Writer};

/// RFC 8881 §18.29.
pub(in crate::v4) fn secinfo(ops: &mut Ops<'_, '_>, args: SecinfoArgs<'_>, w: &mut Writer<'_>) -> Done {
    find(ops, args.name)?;
    flavors(ops, w)
}

/// RFC 8881 §18.45.
pub(in crate::v4) fn secinfo_no_name(
    ops: &mut Ops<'_, '_>,
    args: SecinfoNoNameArgs,
    w: &mut Writer<'_>,
) -> Done {
    match args {
        SecinfoStyle::CurrentFh => drop(ops.place()?),
        SecinfoStyle::Parent => drop(parent(ops)?),
    }
    flavors(ops, w)
}

/// The same everywhere. Since 4.1 there is no current filehandle behind it (RFC 8881 §2.6.3.1.1.8).
fn flavors(ops: &mut Ops<'_, '_>, w: &mut Writer<'_>) -> Done {
    if ops.minor > 0 {
        ops.current = None;
    }
    SecinfoOk([AuthFlavor::SYS, AuthFlavor::NONE].map(Secinfo::Flavor).to_vec()).encode(w);
    Ok(())
}
