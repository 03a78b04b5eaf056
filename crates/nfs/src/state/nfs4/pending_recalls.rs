//! Delivers recalls and lock notices on a thread of their own: the caller may hold any lock.

use super::channel::Callback;
use super::client::Client;
use super::delegations::RecentRecalls;
use super::delegations::VolumeFile;
use super::revoked::RevokedClaims;
use super::waiting::RESERVED_S;
use nfs_wire::v4::FileHandle;
use nfs_wire::v4::callback::{Argument, RecallArgs};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::thread;
use vfs::claims::{Effect, Holder, HolderId, Outcome, Ticket};
use vfs::sync::Mutex;
use vfs::{FileKey, Volume, VolumeId, panics};

/// A client as the claims of a volume reach it.
struct ClientHolder {
    client: Weak<Client>,
    volume: VolumeId,
    revoked: Arc<RevokedClaims>,
    sender: Sender<Notice>,
}

struct Notice {
    client: Weak<Client>,
    volume: VolumeId,
    effect: Effect,
}

impl Holder for ClientHolder {
    fn deliver(&self, effect: Effect) {
        if let Effect::Revoked { what, file, .. } = effect {
            return self.revoked.add((self.volume, file), what);
        }
        // Fails only without a thread. Then recalled leases end by timeout.
        let _ = self.sender.send(Notice { client: Weak::clone(&self.client), volume: self.volume, effect });
    }
}

/// Queues effects for delivery to clients.
#[derive(Default)]
pub(crate) struct ClientNotifier {
    sender: OnceLock<Sender<Notice>>,
    pub(crate) recent_recalls: Arc<RecentRecalls>,
    /// Seconds since the start of the service.
    pub(super) second: Arc<AtomicU64>,
    holders: Mutex<HashMap<(VolumeId, HolderId), Weak<Client>>>,
}

impl ClientNotifier {
    /// Attaches a client to the claims of a volume.
    pub(crate) fn attach(&self, client: &Arc<Client>, volume: &Volume) -> HolderId {
        let id = volume.claims().attach(self.holder(client, volume.id()));
        self.holders().insert((volume.id(), id), Arc::downgrade(client));
        id
    }

    /// The client that is this holder among the claims of a volume.
    pub(super) fn client(&self, volume: VolumeId, holder: HolderId) -> Option<Arc<Client>> {
        self.holders().get(&(volume, holder))?.upgrade()
    }

    pub(super) fn forget(&self, volume: VolumeId, holder: HolderId) {
        self.holders().remove(&(volume, holder));
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<(VolumeId, HolderId), Weak<Client>>> {
        self.holders.lock()
    }

    /// A client as the claims of this volume are to reach it.
    fn holder(&self, client: &Arc<Client>, volume: VolumeId) -> Arc<dyn Holder> {
        let sender = self.sender.get_or_init(|| {
            let (sender, notices) = channel();
            let (recent_recalls, second) = (Arc::clone(&self.recent_recalls), Arc::clone(&self.second));
            let work = move || work(&notices, &recent_recalls, &second);
            if let Err(error) = thread::Builder::new().name("nfs4-callbacks".into()).spawn(work) {
                tracing::warn!(%error, "cannot call clients: starting a thread failed");
            }
            sender
        });
        let (client, revoked, sender) = (Arc::downgrade(client), Arc::clone(&client.revoked), sender.clone());
        Arc::new(ClientHolder { client, volume, revoked, sender })
    }
}

/// Delivers notices until the sender is dropped.
fn work(notices: &Receiver<Notice>, recent_recalls: &RecentRecalls, second: &AtomicU64) {
    for Notice { client, volume, effect } in notices {
        let Some(client) = client.upgrade() else { continue };
        // A panicking delivery has logged its panic; the next one runs.
        let _ = panics::catch(|| match effect {
            Effect::Recall { file, .. } => {
                recent_recalls.note((volume, file), second.load(Ordering::Relaxed));
                recall(&client, volume, file);
            }
            Effect::Notify { file, ticket, .. }
            | Effect::Resume { file, ticket, outcome: Outcome::Again, .. } => {
                notify_lock(&client, (volume, file), ticket, second.load(Ordering::Relaxed));
            }
            Effect::Resume { file, ticket, .. } => {
                let place = (volume, file);
                client.states().stop_waiting(|lock| lock.volume_file == place && lock.ticket == ticket);
            }
            Effect::Revoked { .. } | Effect::Remove { .. } => {}
        });
    }
}

/// Asks a client for a delegation back. Its table is locked as long as an OPEN gives one, so it is there.
fn recall(client: &Arc<Client>, volume: VolumeId, file: FileKey) {
    let states = client.states();
    let Some(index) = states.delegation_of(&(volume, file)) else { return };
    let (stateid, Ok(delegation)) = (states.stateid(index), states.delegation(index)) else { return };
    let fh = FileHandle(&delegation.handle);
    let callback = Callback::new(&Argument::Recall(RecallArgs { stateid, truncate: false, fh }));
    drop(states);
    client.callbacks.call(callback);
}

/// Tells a client that it may ask again for a lock.
fn notify_lock(client: &Arc<Client>, place: VolumeFile, ticket: Ticket, second: u64) {
    let callback = client.states().notify(&place, ticket, second + RESERVED_S);
    if let Some(callback) = callback {
        client.callbacks.call(callback);
    }
}
