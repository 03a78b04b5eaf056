//! What a call must pay before it is done.

use super::dispatch::{RpcCall, Sideband, Target};
use crate::handle::HandleSigner;
use crate::service::Service;
use crate::{rates, v3, v4};
use nfs_wire::v3::Procedure;
use std::sync::Arc;
use vfs::qos::{Toll, is_anything_limited};
use vfs::{Export, Namespace, Origin};

/// What a call with these arguments must pay; `None` if that is nothing, or if it will be refused anyway.
#[inline]
pub(super) fn toll(
    call: &RpcCall,
    args: &[u8],
    service: &Service,
    namespace: &Namespace,
    origin: Origin,
) -> Option<Toll> {
    let rated = |gate| Some(rates::toll(gate, origin.client));
    let (export, demand) = match call.target {
        Target::Nfs(Procedure::COMMIT) => return rated(&service.rates.commits),
        Target::Sideband(Sideband::Mount(_, nfs_wire::mount::Procedure::MNT)) => {
            return rated(&service.rates.mounts);
        }
        Target::Nfs(procedure) if is_anything_limited() => {
            let (handle, demand) = v3::demand(procedure, args)?;
            (reached(handle, service, namespace, origin)?, demand)
        }
        Target::Compound(outline) if outline.is_recorded => return rated(&service.rates.records),
        Target::Compound(_) if is_anything_limited() => {
            let (handle, demand) = v4::demand(args)?;
            (reached(handle, service, namespace, origin)?, demand)
        }
        _ => return None,
    };
    export.volume.toll(origin.client, demand)
}

/// The export of a handle, for a call that pays for it: nobody spends what a volume has without a handle that we made, nor from
/// where it is not exported to.
pub(crate) fn reached<'n>(
    handle: &[u8],
    service: &Service,
    namespace: &'n Namespace,
    origin: Origin,
) -> Option<&'n Arc<Export>> {
    let export = namespace.export(HandleSigner::claimed_export(handle)?)?;
    service.signer.verify(handle).ok()?;
    export.rule(origin)?;
    Some(export)
}
