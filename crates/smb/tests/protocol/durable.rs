//! Durable opens, and replayed CREATEs (MS-SMB2 §3.3.5.9.6 to §3.3.5.9.13).

use crate::channels::channel_of;
use crate::rig::{ALICE, BOB, Client, OTHER, Offer, Opening, Reply, Rig, SHARE, lease, name, wait_until};
use smb::limits::CONNECTION_WAITING_MAX;
use smb_wire::create::{
    CreateAction, CreateContext, CreateContexts, CreateOptions, CreateRequest, CreateResponse, OplockLevel,
};
use smb_wire::durable::{
    AppInstanceId, AppInstanceVersion, DurableFlags, DurableReconnect, DurableReconnectV2, DurableRequest,
    DurableRequestV2, DurableResponseV2,
};
use smb_wire::header::Command;
use smb_wire::lease::Lease;
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::session::Empty;
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, Guid, NtStatus};

pub(crate) type Context = (&'static [u8], Vec<u8>);

fn v1() -> Context {
    (DurableRequest::NAME, DurableRequest.to_bytes())
}

pub(crate) fn v2(guid: u8, timeout: u32) -> Context {
    let request = DurableRequestV2 { timeout, flags: DurableFlags::empty(), create_guid: Guid([guid; 16]) };
    (DurableRequestV2::NAME, request.to_bytes())
}

fn back(file_id: FileId) -> Context {
    (DurableReconnect::NAME, DurableReconnect { file_id }.to_bytes())
}

pub(crate) fn back_v2(file_id: FileId, guid: u8) -> Context {
    let flags = DurableFlags::empty();
    let request = DurableReconnectV2 { file_id, create_guid: Guid([guid; 16]), flags };
    (DurableReconnectV2::NAME, request.to_bytes())
}

fn instance(id: u8) -> Context {
    (AppInstanceId::NAME, AppInstanceId { app_instance_id: Guid([id; 16]) }.to_bytes())
}

fn version(low: u64) -> Context {
    let version = AppInstanceVersion { app_instance_version_high: 0, app_instance_version_low: low };
    (AppInstanceVersion::NAME, version.to_bytes())
}

pub(crate) fn leased(asked: Lease) -> Context {
    (Lease::NAME, asked.to_bytes())
}

/// Sends a CREATE with an oplock or a lease and these contexts.
fn ask(client: &mut Client, path: &str, opening: Opening, level: OplockLevel, contexts: &[Context]) {
    let wire = name(path);
    let contexts = contexts.iter().map(|(name, data)| CreateContext { name, data }).collect();
    let request = CreateRequest {
        requested_oplock_level: level,
        contexts: CreateContexts(contexts),
        ..opening.request(&wire)
    };
    let message = client.request(Command::CREATE, &request);
    client.send_protected(message);
}

/// Sends the CREATE and returns the reply.
pub(crate) fn create(
    client: &mut Client,
    path: &str,
    opening: Opening,
    level: OplockLevel,
    contexts: &[Context],
) -> Reply {
    ask(client, path, opening, level, contexts);
    client.reply()
}

/// CREATE with a batch oplock.
fn batch(client: &mut Client, path: &str, contexts: &[Context]) -> Reply {
    create(client, path, Opening::alone(), OplockLevel::BATCH, contexts)
}

/// Reconnects to an open: only the contexts matter.
pub(crate) fn again(client: &mut Client, path: &str, contexts: &[Context]) -> Reply {
    create(client, path, Opening::default(), OplockLevel::NONE, contexts)
}

pub(crate) fn id(reply: &Reply) -> FileId {
    assert_eq!(reply.status(), NtStatus::SUCCESS);
    reply.body::<CreateResponse<'_>>().file_id
}

pub(crate) fn has(reply: &Reply, name: &[u8]) -> bool {
    reply.body::<CreateResponse<'_>>().contexts.find(name).is_some()
}

/// Loses a connection and waits until the server notices.
#[track_caller]
pub(crate) fn lose(rig: &Rig, client: Client) {
    let before = rig.connections();
    drop(client);
    wait_until(|| rig.connections() < before);
}

pub(crate) fn lock_request(file_id: FileId, flags: LockFlags) -> LockRequest {
    let locks = vec![LockElement { offset: 0, length: 9, flags }];
    LockRequest { lock_sequence: LockSequence(0), file_id, locks }
}

pub(crate) fn lock(client: &mut Client, file_id: FileId, flags: LockFlags) -> NtStatus {
    client.call(Command::LOCK, &lock_request(file_id, flags)).status()
}

#[test]
fn batch_oplock_makes_open_durable() {
    let rig = Rig::new();
    for (asks, comes_back) in [(v1(), None), (v2(1, 0), Some(1)), (v2(2, 0), None)] {
        let mut client = rig.alice();
        let opened = batch(&mut client, "file", std::slice::from_ref(&asks));
        assert!(has(&opened, asks.0));
        let old = id(&opened);
        client.write(old, 0, b"mine");
        assert_eq!(lock(&mut client, old, LockFlags::EXCLUSIVE_LOCK), NtStatus::SUCCESS);
        lose(&rig, client);
        let mut client = rig.alice();
        client.read(old, 0, 4).assert_refused(NtStatus::FILE_CLOSED);
        let wanted = comes_back.map_or_else(|| back(old), |guid| back_v2(old, guid));
        let reply = again(&mut client, "any name", &[wanted]);
        let new = id(&reply);
        let body = reply.body::<CreateResponse<'_>>();
        assert_eq!((body.oplock_level, body.create_action), (OplockLevel::BATCH, CreateAction::OPENED));
        assert_eq!((body.end_of_file, new.persistent), (4, old.persistent));
        assert_ne!(new.volatile, old.volatile);
        assert!(!has(&reply, asks.0));
        client.read(old, 0, 4).assert_refused(NtStatus::FILE_CLOSED);
        assert_eq!(client.data(new, 0, 4), b"mine");
        assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::SUCCESS, "its range came with it");
        // The break names the open's new id.
        let mut other = rig.alice();
        other.ask("file", Opening::default(), OplockLevel::NONE, None);
        assert_eq!(client.oplock_break().file_id, new);
        assert_eq!(client.close(new).status(), NtStatus::SUCCESS);
        again(&mut client, "file", &[back(old)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
        // The next file is not available to it either.
        lose(&rig, other);
    }
}

#[test]
fn open_without_handle_caching_is_not_durable() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for level in [OplockLevel::NONE, OplockLevel::II, OplockLevel::EXCLUSIVE] {
        for asks in [v1(), v2(1, 0)] {
            let reply = create(&mut client, "file", Opening::default(), level, std::slice::from_ref(&asks));
            assert!(!has(&reply, asks.0), "{level:?}");
            client.close(id(&reply));
        }
    }
    let reply = create(&mut client, "file", Opening::alone(), OplockLevel::EXCLUSIVE, &[v1()]);
    lose(&rig, client);
    let mut client = rig.alice();
    again(&mut client, "file", &[back(id(&reply))]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    client.open("file", Opening::alone());
}

#[test]
fn conflicting_open_ends_disconnected_durable_open() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let reply = batch(&mut client, "file", &[v2(1, 0)]);
    lose(&rig, client);
    let mut other = rig.alice();
    let theirs = other.open("file", Opening::alone());
    again(&mut other, "file", &[back_v2(id(&reply), 1)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(other.close(theirs).status(), NtStatus::SUCCESS);
}

#[test]
fn durable_open_survives_logoff_but_not_tree_disconnect() {
    let rig = Rig::new();
    for (command, kept) in [(Command::LOGOFF, true), (Command::TREE_DISCONNECT, false)] {
        let mut client = rig.alice();
        let reply = batch(&mut client, "file", &[v1()]);
        assert_eq!(client.call(command, &Empty).status(), NtStatus::SUCCESS);
        let mut client = rig.alice();
        let status = again(&mut client, "file", &[back(id(&reply))]).status();
        assert_eq!(status == NtStatus::SUCCESS, kept, "{command:?}: {status:?}");
        lose(&rig, client);
    }
}

#[test]
fn previous_session_leaves_its_durable_opens() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let reply = batch(&mut first, "file", &[v1()]);
    again(&mut first, "file", &[back(id(&reply))]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    let mut second = rig.connect();
    second.negotiate(&Offer::default());
    second.try_log_on(ALICE, first.session_id).unwrap();
    second.mount(SHARE);
    let new = id(&again(&mut second, "file", &[back(id(&reply))]));
    assert_eq!(second.write(new, 0, b"x").status(), NtStatus::SUCCESS);
}

#[test]
fn durable_open_belongs_to_its_user() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let old = id(&batch(&mut client, "file", &[v2(1, 0)]));
    lose(&rig, client);
    let unknown = NtStatus::OBJECT_NAME_NOT_FOUND;
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    again(&mut bob, "file", &[back(old)]).assert_refused(NtStatus::ACCESS_DENIED);
    again(&mut bob, "file", &[back_v2(old, 1)]).assert_refused(NtStatus::ACCESS_DENIED);
    let mut client = rig.alice();
    again(&mut client, "file", &[back_v2(old, 2)]).assert_refused(unknown);
    again(&mut client, "file", &[back_v2(old, 0)]).assert_refused(unknown);
    let wrong = FileId { persistent: old.persistent ^ 1, ..old };
    again(&mut client, "file", &[back(wrong)]).assert_refused(unknown);
    again(&mut client, "file", &[back(FileId::PREVIOUS)]).assert_refused(unknown);
    again(&mut client, "file", &[back(old), leased(lease(1, "RWH"))]).assert_refused(unknown);
    client.mount(OTHER);
    again(&mut client, "file", &[back(old)]).assert_refused(unknown);
    client.mount(SHARE);
    let both = [back_v2(old, 1), v2(1, 0)];
    again(&mut client, "file", &both).assert_refused(NtStatus::INVALID_PARAMETER);
    again(&mut client, "file", &[back(old), back_v2(old, 1)]).assert_refused(NtStatus::INVALID_PARAMETER);
    again(&mut client, "file", &[v1(), v2(1, 0)]).assert_refused(NtStatus::INVALID_PARAMETER);
    let short = (DurableReconnect::NAME, vec![0; 3]);
    again(&mut client, "file", &[short]).assert_refused(NtStatus::INVALID_PARAMETER);
    id(&again(&mut client, "file", &[back_v2(old, 1)]));
}

#[test]
fn lease_reconnect_needs_client_key_and_name() {
    let rig = Rig::new();
    let mut client = rig.alice_at(1);
    let asks = [v2(1, 0), leased(lease(7, "RWH"))];
    let old = id(&create(&mut client, "File", Opening::default(), OplockLevel::LEASE, &asks));
    lose(&rig, client);
    let unknown = NtStatus::OBJECT_NAME_NOT_FOUND;
    let wanted = |key| [back_v2(old, 1), leased(lease(key, ""))];
    again(&mut rig.alice_at(2), "file", &wanted(7)).assert_refused(unknown);
    let mut client = rig.alice_at(1);
    again(&mut client, "file", &wanted(8)).assert_refused(unknown);
    again(&mut client, "file", &wanted(7)[..1]).assert_refused(unknown);
    again(&mut client, "other", &wanted(7)).assert_refused(NtStatus::INVALID_PARAMETER);
    let reply = again(&mut client, "file", &wanted(7));
    let new = id(&reply);
    let body = reply.body::<CreateResponse<'_>>();
    let granted = Lease::from_bytes(body.contexts.find(Lease::NAME).unwrap()).unwrap();
    assert_eq!(granted.lease_state(), crate::rig::state("RWH"));
    // Breaks go to the new connection.
    let mut other = rig.alice_at(2);
    other.ask("file", Opening::default(), OplockLevel::NONE, None);
    client.assert_lease_break(7, "RWH", "RH", true);
    client.close(new);
}

/// The lease belongs to the connected open, although the client has not reclaimed the other.
/// The client connects again before the server notices that its connection is lost.
#[test]
fn answer_to_reconnect_does_not_depend_on_when_the_loss_is_noticed() {
    const ROUNDS: u32 = 100;
    let rig = Rig::new();
    for round in 0..ROUNDS {
        let mut client = rig.alice_at(1);
        let asks = [v2(1, 0), leased(lease(7, "RWH"))];
        let old = id(&create(&mut client, "file", Opening::default(), OplockLevel::LEASE, &asks));
        let mut again_at_once = rig.alice_at(1);
        drop(client);
        let wanted = [back_v2(old, 1), leased(lease(7, ""))];
        let status = again(&mut again_at_once, "other", &wanted).status();
        assert_eq!(status, NtStatus::INVALID_PARAMETER, "round {round}");
        let new = id(&again(&mut again_at_once, "file", &wanted));
        assert_eq!(again_at_once.close(new).status(), NtStatus::SUCCESS);
        lose(&rig, again_at_once);
    }
}

#[test]
fn lease_with_new_open_is_broken_despite_lost_open() {
    let rig = Rig::new();
    let mut client = rig.alice_at(1);
    let asks = [v2(1, 0), leased(lease(7, "RWH"))];
    let old = id(&create(&mut client, "file", Opening::default(), OplockLevel::LEASE, &asks));
    lose(&rig, client);
    let mut client = rig.alice_at(1);
    client.open_lease("file", Opening::default(), lease(7, "RWH")).assert_state("RWH");
    let mut other = rig.alice_at(2);
    other.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(other.reply().status(), NtStatus::PENDING);
    client.assert_lease_break(7, "RWH", "RH", true);
    assert_eq!(client.acknowledge_lease(7, "RH"), NtStatus::SUCCESS);
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
    id(&again(&mut client, "file", &[back_v2(old, 1), leased(lease(7, ""))]));
}

#[test]
fn durable_timeout_is_limited_and_applied() {
    let rig = Rig::new();
    for (asks, gets) in [(0, 60_000), (1000, 1000), (u32::MAX, 300_000)] {
        let mut client = rig.alice();
        let reply = batch(&mut client, "file", &[v2(1, asks)]);
        let body = reply.body::<CreateResponse<'_>>();
        let answer =
            DurableResponseV2::from_bytes(body.contexts.find(DurableRequestV2::NAME).unwrap()).unwrap();
        assert_eq!((answer.timeout, answer.flags), (gets, DurableFlags::empty()));
        client.close(id(&reply));
    }
}

#[test]
fn durable_v2_needs_smb_3() {
    let rig = Rig::new();
    let mut client = rig.alice_with(&Offer::of(Dialect::SMB210));
    let reply = batch(&mut client, "file", &[v2(1, 0)]);
    assert!(!has(&reply, DurableRequestV2::NAME));
    client.close(id(&reply));
    assert!(has(&batch(&mut client, "file", &[v1()]), DurableRequest::NAME));
}

#[test]
fn disconnected_delete_pending_file_yields_its_name() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let opening = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::alone() };
    let old = id(&create(&mut client, "file", opening, OplockLevel::BATCH, &[v1()]));
    client.write(old, 0, b"data");
    lose(&rig, client);
    let mut other = rig.alice();
    assert_eq!(other.action("file", Opening::default()), Ok(CreateAction::CREATED));
}

#[test]
fn replayed_create_runs_once() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let first = batch(&mut client, "file", &[v2(1, 0)]);
    batch(&mut client, "file", &[v2(1, 0)]).assert_refused(NtStatus::DUPLICATE_OBJECTID);
    client.replays = true;
    let again = batch(&mut client, "file", &[v2(1, 0)]);
    assert_eq!(id(&again), id(&first));
    assert_eq!(again.body::<CreateResponse<'_>>().create_action, CreateAction::CREATED);
    assert!(has(&again, DurableRequestV2::NAME));
    // With a lease the request differs.
    let asks = [v2(1, 0), leased(lease(1, "RWH"))];
    let opening = Opening::alone();
    create(&mut client, "file", opening, OplockLevel::LEASE, &asks).assert_refused(NtStatus::ACCESS_DENIED);
    client.replays = false;
    assert_eq!(client.close(id(&first)).status(), NtStatus::SUCCESS);
    let new = batch(&mut client, "file", &[v2(1, 0)]);
    assert_ne!(id(&new), id(&first), "the closed open's create GUID is forgotten");
    // Another user's create GUIDs are separate, even if equal.
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    assert_eq!(batch(&mut bob, "other", &[v2(1, 0)]).status(), NtStatus::SUCCESS);
}

#[test]
fn failed_create_can_be_replayed() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let theirs = other.open("file", Opening::alone());
    for _ in 0..2 {
        batch(&mut client, "file", &[v2(1, 0)]).assert_refused(NtStatus::SHARING_VIOLATION);
    }
    other.close(theirs);
    assert_eq!(batch(&mut client, "file", &[v2(1, 0)]).status(), NtStatus::SUCCESS);
}

#[test]
fn replay_of_pending_create_is_refused() {
    let rig = Rig::new();
    let (mut holder, mut client) = (rig.alice_at(1), rig.alice_at(2));
    let held = create(&mut holder, "file", Opening::default(), OplockLevel::BATCH, &[]);
    ask(&mut client, "file", Opening::default(), OplockLevel::NONE, &[v2(1, 0)]);
    assert_eq!(client.reply().status(), NtStatus::PENDING);
    holder.oplock_break();
    create(&mut client, "file", Opening::default(), OplockLevel::NONE, &[v2(1, 0)])
        .assert_refused(NtStatus::DUPLICATE_OBJECTID);
    client.replays = true;
    create(&mut client, "file", Opening::default(), OplockLevel::NONE, &[v2(1, 0)])
        .assert_refused(NtStatus::FILE_NOT_AVAILABLE);
    holder.close(id(&held));
    let done = client.reply();
    let again = create(&mut client, "file", Opening::default(), OplockLevel::NONE, &[v2(1, 0)]);
    assert_eq!(id(&again), id(&done));
}

/// A client with an oplock, another whose CREATE waits for its break, and a further channel of the latter's session.
fn with_a_waiting_create(rig: &Rig, path: &str, level: OplockLevel) -> (Client, FileId, Client, [Client; 2]) {
    let (mut holder, mut first) = (rig.alice_at(1), rig.alice_at(2));
    let offer = Offer { client_guid: Guid([2; 16]), ..Offer::default() };
    let others = [(); 2].map(|()| channel_of(rig, &first, &offer));
    let held = id(&create(&mut holder, path, Opening::default(), OplockLevel::BATCH, &[]));
    ask(&mut first, path, Opening::default(), level, &[v2(1, 0)]);
    assert_eq!(first.reply().status(), NtStatus::PENDING);
    holder.oplock_break();
    (holder, held, first, others)
}

#[test]
fn pending_create_runs_once_after_connection_loss() {
    let rig = Rig::new();
    for level in [OplockLevel::NONE, OplockLevel::BATCH] {
        let (mut holder, held, first, [mut second, mut third]) = with_a_waiting_create(&rig, "file", level);
        let replay = |client: &mut Client| {
            client.replays = true;
            create(client, "file", Opening::default(), level, &[v2(1, 0)])
        };
        lose(&rig, first);
        replay(&mut second).assert_refused(NtStatus::FILE_NOT_AVAILABLE);
        lose(&rig, second);
        replay(&mut third).assert_refused(NtStatus::FILE_NOT_AVAILABLE);
        holder.close(held);
        wait_until(|| replay(&mut third).status() != NtStatus::FILE_NOT_AVAILABLE);
        let done = replay(&mut third);
        let body = done.body::<CreateResponse<'_>>();
        assert_eq!((body.create_action, body.oplock_level), (CreateAction::OPENED, level));
        assert_eq!(id(&replay(&mut third)), id(&done));
        third.replays = false;
        assert_eq!(third.write(id(&done), 0, b"x").status(), NtStatus::SUCCESS);
        assert_eq!(third.close(id(&done)).status(), NtStatus::SUCCESS);
        let alone = holder.open("file", Opening::alone());
        holder.close(alone);
    }
}

#[test]
fn pending_create_ends_with_its_session() {
    let rig = Rig::new();
    let (mut holder, held, first, [second, mut third]) =
        with_a_waiting_create(&rig, "file", OplockLevel::NONE);
    lose(&rig, first);
    lose(&rig, second);
    assert_eq!(third.call(Command::LOGOFF, &Empty).status(), NtStatus::SUCCESS);
    holder.close(held);
    holder.open("file", Opening::alone());
    let (mut holder, held, first, [second, third]) = with_a_waiting_create(&rig, "other", OplockLevel::NONE);
    lose(&rig, first);
    lose(&rig, second);
    lose(&rig, third);
    holder.close(held);
    holder.open("other", Opening::alone());
}

#[test]
fn orphaned_creates_count_toward_user_limit() {
    let rig = Rig::new();
    let (_holder, _, first, [mut second, third]) = with_a_waiting_create(&rig, "file", OplockLevel::NONE);
    drop(third);
    wait_until(|| rig.connections() == 3);
    for number in 0..CONNECTION_WAITING_MAX {
        let mut create_guid = [7; 16];
        create_guid[..8].copy_from_slice(&number.to_le_bytes());
        let create_guid = Guid(create_guid);
        let asks = DurableRequestV2 { timeout: 0, flags: DurableFlags::empty(), create_guid };
        let asks = [(DurableRequestV2::NAME, asks.to_bytes())];
        ask(&mut second, "file", Opening::default(), OplockLevel::NONE, &asks);
        assert_eq!(second.reply().status(), NtStatus::PENDING);
    }
    lose(&rig, first);
    // The replay starts the CREATE again, beyond the limit.
    second.replays = true;
    create(&mut second, "file", Opening::default(), OplockLevel::NONE, &[v2(1, 0)])
        .assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn early_reconnect_waits_for_old_connection() {
    let rig = Rig::new();
    for _ in 0..32 {
        let (mut client, mut bob, mut next) = (rig.alice(), rig.connect(), rig.alice());
        bob.negotiate(&Offer::default());
        bob.log_on(BOB);
        bob.mount(SHARE);
        let old = id(&batch(&mut client, "file", &[v2(1, 0)]));
        drop(client);
        assert!(again(&mut bob, "file", &[back_v2(old, 1)]).status().is_error());
        let new = id(&again(&mut next, "file", &[back_v2(old, 1)]));
        assert_eq!(next.close(new).status(), NtStatus::SUCCESS);
    }
}

#[test]
fn early_reconnect_with_another_client_guid_waits() {
    let rig = Rig::new();
    for _ in 0..32 {
        let (mut client, mut next) = (rig.alice_at(1), rig.alice_at(2));
        let old = id(&batch(&mut client, "file", &[v1()]));
        drop(client);
        let new = id(&again(&mut next, "file", &[back(old)]));
        assert_eq!(next.close(new).status(), NtStatus::SUCCESS);
    }
}

#[test]
fn connected_durable_open_cannot_be_reclaimed() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let mut second = channel_of(&rig, &first, &Offer::default());
    let old = id(&batch(&mut first, "file", &[v2(1, 0)]));
    let mut other = rig.alice();
    again(&mut other, "file", &[back_v2(old, 1)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    drop(first);
    for _ in 0..8 {
        again(&mut other, "file", &[back_v2(old, 1)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    assert_eq!(second.write(old, 0, b"x").status(), NtStatus::SUCCESS);
    assert_eq!(second.close(old).status(), NtStatus::SUCCESS);
}

#[test]
fn app_instance_failover_closes_old_opens() {
    let rig = Rig::new();
    let (mut first, mut second) = (rig.alice_at(1), rig.alice_at(2));
    let old = id(&batch(&mut first, "file", &[v2(1, 0), instance(5), version(3)]));
    // Bob knows its id.
    let mut bob = rig.connect();
    bob.negotiate(&Offer { client_guid: Guid([3; 16]), ..Offer::default() });
    bob.log_on(BOB);
    bob.mount(SHARE);
    let shared = Opening { access: smb_wire::types::AccessMask::READ_ATTRIBUTES, ..Opening::default() };
    create(&mut bob, "file", shared, OplockLevel::NONE, &[v2(1, 0), instance(5)]);
    assert_eq!(first.write(old, 0, b"x").status(), NtStatus::SUCCESS);
    batch(&mut second, "file", &[v2(2, 0), instance(5), version(3)])
        .assert_refused(NtStatus::FILE_FORCED_CLOSED);
    let new = id(&batch(&mut second, "file", &[v2(2, 0), instance(5), version(4)]));
    first.write(old, 0, b"x").assert_refused(NtStatus::FILE_CLOSED);
    first.close(old).assert_refused(NtStatus::FILE_CLOSED);
    assert_eq!(second.write(new, 0, b"y").status(), NtStatus::SUCCESS);
}
