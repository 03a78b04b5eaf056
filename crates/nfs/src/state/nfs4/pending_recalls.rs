//! What clients have to be asked is asked on a thread of its own, because whoever caused it may hold any lock.

use super::channel::Callback;
use super::client::Client;
use super::delegations::Contended;
use super::delegations::VolumeFile;
use super::revoked::LostClaims;
use super::waiting::KEPT_S;
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
struct Notified {
    client: Weak<Client>,
    volume: VolumeId,
    lost: Arc<LostClaims>,
    desk: Sender<News>,
}

/// What a client has to be asked.
struct News {
    client: Weak<Client>,
    volume: VolumeId,
    effect: Effect,
}

impl Holder for Notified {
    fn deliver(&self, effect: Effect) {
        if let Effect::Revoked { what, file, .. } = effect {
            return self.lost.add((self.volume, file), what);
        }
        // Fails only if there is no thread: then leases end when their time is over.
        let _ = self.desk.send(News { client: Weak::clone(&self.client), volume: self.volume, effect });
    }
}

/// Where what clients have to be asked is handed in.
#[derive(Default)]
pub(crate) struct NewsDesk {
    desk: OnceLock<Sender<News>>,
    pub(crate) contended: Arc<Contended>,
    /// Seconds since the start of the service.
    pub(super) second: Arc<AtomicU64>,
    /// The clients that are holders.
    holders: Mutex<HashMap<(VolumeId, HolderId), Weak<Client>>>,
}

impl NewsDesk {
    /// Has the claims of this volume reach a client: what it is to them.
    pub(crate) fn attach(&self, client: &Arc<Client>, volume: &Volume) -> HolderId {
        let id = volume.claims().attach(self.holder(client, volume.id()));
        self.holders().insert((volume.id(), id), Arc::downgrade(client));
        id
    }

    /// The client that is this holder among the claims of a volume.
    pub(super) fn client(&self, volume: VolumeId, holder: HolderId) -> Option<Arc<Client>> {
        self.holders().get(&(volume, holder))?.upgrade()
    }

    /// A holder is no more.
    pub(super) fn forget(&self, volume: VolumeId, holder: HolderId) {
        self.holders().remove(&(volume, holder));
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<(VolumeId, HolderId), Weak<Client>>> {
        self.holders.lock()
    }

    /// A client as the claims of this volume are to reach it.
    fn holder(&self, client: &Arc<Client>, volume: VolumeId) -> Arc<dyn Holder> {
        let desk = self.desk.get_or_init(|| {
            let (desk, news) = channel();
            let (contended, second) = (Arc::clone(&self.contended), Arc::clone(&self.second));
            let work = move || work(&news, &contended, &second);
            if let Err(error) = thread::Builder::new().name("nfs4-callbacks".into()).spawn(work) {
                tracing::warn!(%error, "clients cannot be called: no thread can be started");
            }
            desk
        });
        let (client, lost, desk) = (Arc::downgrade(client), Arc::clone(&client.lost), desk.clone());
        Arc::new(Notified { client, volume, lost, desk })
    }
}

/// Asks clients until nobody hands in anything any longer.
fn work(news: &Receiver<News>, contended: &Contended, second: &AtomicU64) {
    for News { client, volume, effect } in news {
        let Some(client) = client.upgrade() else { continue };
        // One that panics has said so, and the next is done.
        let _ = panics::catch(|| match effect {
            Effect::Recall { file, .. } => {
                contended.note((volume, file), second.load(Ordering::Relaxed));
                recall(&client, volume, file);
            }
            Effect::Notify { file, ticket, .. }
            | Effect::Resume { file, ticket, outcome: Outcome::Again, .. } => {
                tell(&client, (volume, file), ticket, second.load(Ordering::Relaxed));
            }
            Effect::Resume { file, ticket, .. } => {
                let place = (volume, file);
                client.held().stop_waiting(|lock| lock.place == place && lock.ticket == ticket);
            }
            Effect::Revoked { .. } | Effect::Remove { .. } => {}
        });
    }
}

/// Asks a client for a delegation back. Its table is locked as long as an OPEN gives one, so it is there.
fn recall(client: &Arc<Client>, volume: VolumeId, file: FileKey) {
    let held = client.held();
    let Some(index) = held.delegation_of(&(volume, file)) else { return };
    let (stateid, Ok(delegation)) = (held.stateid(index), held.delegation(index)) else { return };
    let fh = FileHandle(&delegation.handle);
    let callback = Callback::new(&Argument::Recall(RecallArgs { stateid, truncate: false, fh }));
    drop(held);
    client.callbacks.call(callback);
}

/// Tells a client that it may ask again for a lock.
fn tell(client: &Arc<Client>, place: VolumeFile, ticket: Ticket, second: u64) {
    let told = client.held().told(&place, ticket, second + KEPT_S);
    if let Some(callback) = told {
        client.callbacks.call(callback);
    }
}
