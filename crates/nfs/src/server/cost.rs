//! The admission of a call to the limits, before it runs.

use super::dispatch::{RpcCall, Sideband, Target};
use crate::handle::HandleSigner;
use crate::service::Service;
use crate::state::call_rates;
use crate::v4::price::{PaidOperations, Segment, first_segment};
use crate::{nlm, v3};
use nfs_wire::v3::Procedure;
use std::net::IpAddr;
use std::sync::Arc;
use vfs::qos::{Admission, Demand, is_anything_limited};
use vfs::{Export, Namespace, Origin};

/// The admission of a call with these arguments. `None`: the call is free, or will be refused anyway.
/// Records in `call` which operations of a compound the admission pays for.
#[inline]
pub(crate) fn admission(
    call: &mut RpcCall,
    args: &[u8],
    service: &Service,
    namespace: &Namespace,
    origin: Origin,
    payer: IpAddr,
) -> Option<Admission> {
    let is_rated = match call.target {
        Target::Nfs(procedure) => procedure == Procedure::COMMIT,
        Target::Compound(outline) => outline.is_recorded,
        Target::Sideband(_) => true,
    };
    if is_rated || is_anything_limited() {
        admission_of(call, args, service, namespace, origin, payer)
    } else {
        None
    }
}

fn admission_of(
    call: &mut RpcCall,
    args: &[u8],
    service: &Service,
    namespace: &Namespace,
    origin: Origin,
    payer: IpAddr,
) -> Option<Admission> {
    let rated = |gate| Some(call_rates::admission(gate, payer));
    let (export, demand) = match call.target {
        Target::Nfs(Procedure::COMMIT) => return rated(&service.rates.commits),
        Target::Sideband(Sideband::Mount(_, nfs_wire::mount::Procedure::MNT)) => {
            return rated(&service.rates.mounts);
        }
        Target::Sideband(Sideband::Rquota(..)) => return rated(&service.rates.quotas),
        Target::Nfs(procedure) => {
            let (handle, demand) = v3::demand(procedure, args)?;
            (export_of_handle(handle, service, namespace, origin)?, demand)
        }
        Target::Sideband(Sideband::Nlm(version, procedure)) if is_anything_limited() => {
            let handle = nlm::handle(version, procedure, args)?;
            (export_of_handle(handle, service, namespace, origin)?, Demand::OTHER)
        }
        Target::Compound(outline) if outline.is_recorded => return rated(&service.rates.records),
        Target::Compound(_) => {
            let Segment { handle, demand, until } = first_segment(args)?;
            let export = export_of_handle(handle?, service, namespace, origin)?;
            let admission = export.volume.admission(payer, demand);
            call.paid = admission.as_ref().and_then(|_| PaidOperations::new(export.volume.id(), until));
            // A free call must not queue: other clients may wait for its effect.
            return admission.filter(|admission| !admission.demand().is_nothing());
        }
        Target::Sideband(_) => return None,
    };
    export.volume.admission(payer, demand)
}

/// The export of a handle, for a call that has to pay. The handle must be signed by us and its export must admit
/// the client. Other handles consume no tokens of a volume.
pub(crate) fn export_of_handle<'n>(
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
