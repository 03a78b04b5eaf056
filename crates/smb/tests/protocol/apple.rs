//! What macOS asks and does: its create context, and the streams in which it keeps Finder's marks and resource forks.

use crate::rig::{Client, Opening, Rig, name};
use smb_wire::apple::{
    self, AppleCapabilities, AppleVolumeCapabilities, QueryBitmap, ServerAnswer, ServerQuery,
};
use smb_wire::create::{CreateContext, CreateContexts, CreateResponse};
use smb_wire::header::Command;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode};

/// Opens the root of the share with this in Apple's context, and what is answered in it.
fn ask(client: &mut Client, data: &[u8]) -> Option<Vec<u8>> {
    let access = AccessMask::READ_ATTRIBUTES;
    let (wire, opening) = (name(""), Opening { access, ..Opening::dir() });
    let contexts = CreateContexts(vec![CreateContext { name: apple::NAME, data }]);
    let reply =
        client.call(Command::CREATE, &smb_wire::create::CreateRequest { contexts, ..opening.request(&wire) });
    let response: CreateResponse<'_> = reply.body();
    let answer = response.contexts.find(apple::NAME).map(<[u8]>::to_vec);
    client.close(response.file_id);
    answer
}

#[test]
fn a_server_says_what_it_can_and_no_more() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let all = QueryBitmap::SERVER_CAPS | QueryBitmap::VOLUME_CAPS | QueryBitmap::MODEL_INFO;
    let query = |request_bitmap| {
        let client_capabilities = AppleCapabilities::SUPPORTS_READ_DIR_ATTR;
        ServerQuery { request_bitmap, client_capabilities }.to_bytes()
    };
    let told = ask(&mut client, &query(all)).unwrap();
    let told = ServerAnswer::from_bytes(&told).unwrap();
    assert_eq!(told.server_capabilities, Some(AppleCapabilities::UNIX_BASED));
    assert_eq!(told.volume_capabilities, Some(AppleVolumeCapabilities::SUPPORTS_FULL_SYNC));
    assert_eq!(told.model.unwrap().bytes(), name("MacSamba"));
    let told = ask(&mut client, &query(QueryBitmap::SERVER_CAPS)).unwrap();
    let told = ServerAnswer::from_bytes(&told).unwrap();
    assert_eq!((told.volume_capabilities, told.model), (None, None));
}

#[test]
fn what_is_no_query_is_not_answered() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for bad in [&b""[..], &[2; 24], &[1, 0, 0, 0, 0, 0, 0, 0, 7]] {
        assert_eq!(ask(&mut client, bad), None, "{bad:?}");
    }
}

#[test]
fn finders_marks_and_resource_forks_are_streams() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file:AFP_AfpInfo", &[b'A'; 60]);
    client.put("file:AFP_Resource", &[7; 70_000][..60_000]);
    client.put("file:com.apple.metadata\u{f022}_kMDItemUserTags:$DATA", b"tags");
    assert_eq!(client.get("file:afp_afpinfo"), [b'A'; 60]);
    assert_eq!(client.get("file:AFP_Resource").len(), 60_000);
    assert_eq!(client.get("file:com.apple.metadata\u{f022}_kMDItemUserTags"), b"tags");
}
