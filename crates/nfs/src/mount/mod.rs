//! MOUNT.
pub mod wire;

use crate::call::Call;
use crate::rpc::dispatch::{Attempt, Outcome};
use crate::rpc::reply::Replies;

/// Who has mounted what.
#[derive(Default)]
pub struct MountTable {}

pub(crate) fn answer(call: &mut Call<'_>, version: u32, procedure: wire::Procedure, args: &[u8], out: &mut Replies) -> Attempt {
    use xdr::{Decode, Encode, Reader};
    let _ = version;
    match procedure {
        wire::Procedure::NULL => Ok(Outcome::Replied),
        wire::Procedure::MNT => {
            let path = wire::DirPath::decode(&mut Reader::new(args))?;
            let path = String::from_utf8_lossy(path.0).into_owned();
            let export = call.namespace.resolve(&path).map(|(e, _)| e.clone());
            let reply = match export {
                Some(export) => {
                    let node = export.volume.root().clone();
                    let opened = call.remember(&export, node);
                    wire::MountReply::Ok(wire::MountOk { fhandle: opened.handle.bytes(), auth_flavors: vec![crate::rpc::wire::AuthFlavor::SYS] }).encode(&mut out.writer());
                    return Ok(Outcome::Replied);
                }
                None => wire::MountReply::Err(wire::Status::NOENT),
            };
            reply.encode(&mut out.writer());
            Ok(Outcome::Replied)
        }
        _ => Ok(Outcome::NoProcedure),
    }
}
