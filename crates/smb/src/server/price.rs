//! The price of commands at the limits of a volume. The commands of a message are paid for together.
//!
//! | commands | price |
//! |---|---|
//! | READ | one READ, and the bytes asked for |
//! | WRITE | one WRITE, and its bytes |
//! | SRV_COPYCHUNK | a READ and a WRITE of each chunk, and the bytes of both, a MiB at a time |
//! | FILE_LEVEL_TRIM | a WRITE without bytes of each range |
//! | SRV_ENUMERATE_SNAPSHOTS | sixteen operations |
//! | QUERY_DIRECTORY, QUERY_INFO of descriptors, extended attributes and streams | one operation, and the bytes of the reply as bytes read |
//! | SET_INFO of descriptors and extended attributes, CREATE with them | one operation, and their bytes as bytes written |
//! | QUERY_INFO, CLOSE | one operation; one of each goes free with every CREATE of the message |
//! | CANCEL, OPLOCK_BREAK | nothing: others may wait for them |
//! | all others | one operation |

use crate::commands::ioctl;
use crate::limits::PAID_BYTES_MAX;
use crate::request::context::RequestContext;
use crate::request::payload::{is_user_data, stored_bytes, transfer_bytes};
use smb_wire::compound::{self, Message};
use smb_wire::create::CreateRequest;
use smb_wire::header::Command;
use smb_wire::info::{QueryInfoRequest, SetInfoRequest};
use smb_wire::ioctl::IoctlRequest;
use vfs::qos::Demand;

pub(crate) fn demand(request: &Message<'_>) -> Demand {
    match request.header.command {
        Command::READ => Demand::read(transfer_bytes(request)),
        Command::WRITE => Demand::write(transfer_bytes(request)),
        Command::QUERY_DIRECTORY => Demand::list(transfer_bytes(request)),
        Command::QUERY_INFO if is_query_of_data(request) => Demand::list(transfer_bytes(request)),
        Command::SET_INFO if is_setting_of_data(request) => Demand::store(transfer_bytes(request)),
        Command::CREATE => {
            let create = RequestContext::decode::<CreateRequest<'_>>(request.bytes);
            create.map_or(Demand::OTHER, |create| Demand::store(stored_bytes(&create)))
        }
        Command::IOCTL => {
            let args = RequestContext::decode::<IoctlRequest<'_>>(request.bytes);
            args.map_or(Demand::OTHER, |args| ioctl::demand(&args))
        }
        command if ends_waits(command) => Demand::NOTHING,
        _ => Demand::OTHER,
    }
}

/// Whether a command ends waits of others, or of its own client. It needs no admission, so that it does not wait
/// itself.
pub(crate) fn ends_waits(command: Command) -> bool {
    matches!(command, Command::CANCEL | Command::OPLOCK_BREAK)
}

/// The demand of all commands of a message. None if their bytes exceed [`PAID_BYTES_MAX`]: then commands are admitted
/// one by one.
pub(crate) fn demand_of_all(message: &[u8]) -> Option<Demand> {
    let (mut all, mut creates, mut queries, mut closes) = (Demand::NOTHING, 0u32, 0u32, 0u32);
    for request in compound::messages(message).flatten() {
        let demand = demand(&request);
        match request.header.command {
            Command::QUERY_INFO => queries += 1,
            Command::CLOSE => closes += 1,
            Command::CREATE => creates += 1,
            _ => {}
        }
        all = all.and(demand);
    }
    all.others -= queries.min(creates) + closes.min(creates);
    Some(all).filter(|all| all.read_bytes.saturating_add(all.write_bytes) <= PAID_BYTES_MAX)
}

/// Whether a query returns user data of any length.
fn is_query_of_data(request: &Message<'_>) -> bool {
    RequestContext::decode::<QueryInfoRequest<'_>>(request.bytes)
        .is_ok_and(|query| is_user_data(query.info_type, query.file_info_class))
}

fn is_setting_of_data(request: &Message<'_>) -> bool {
    RequestContext::decode::<SetInfoRequest<'_>>(request.bytes)
        .is_ok_and(|set| is_user_data(set.info_type, set.file_info_class))
}
