//! What happens to the claims of clients: what was taken away is kept until they are heard, and what they have to be asked is
//! asked on a thread of its own, because whoever caused it may hold any lock.

use super::channel::Callback;
use super::client::Client;
use super::delegations::{Contended, VolumeFile};
use nfs_wire::v4::FileHandle;
use nfs_wire::v4::callback::{Argument, RecallArgs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use vfs::claims::{Effect, Holder, Lost};
use vfs::{FileKey, VolumeId, panics};

/// What was taken from a client since it was heard last.
#[derive(Default)]
pub(crate) struct Notices {
    lost: Mutex<Vec<(VolumeFile, Lost)>>,
}

impl Notices {
    /// Whether nothing was.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// What was taken from it since this was asked last.
    pub(super) fn take(&self) -> Vec<(VolumeFile, Lost)> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client as the claims of a volume reach it.
struct Notified {
    client: Weak<Client>,
    volume: VolumeId,
    notices: Arc<Notices>,
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
            let mut lost = self.notices.lost.lock().unwrap_or_else(PoisonError::into_inner);
            return lost.push(((self.volume, file), what));
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
}

impl NewsDesk {
    /// A client as the claims of this volume are to reach it.
    pub(crate) fn holder(&self, client: &Arc<Client>, volume: VolumeId) -> Arc<dyn Holder> {
        let desk = self.desk.get_or_init(|| {
            let (desk, news) = channel();
            let (contended, second) = (Arc::clone(&self.contended), Arc::clone(&self.second));
            let work = move || work(&news, &contended, &second);
            if let Err(error) = thread::Builder::new().name("nfs4-callbacks".into()).spawn(work) {
                tracing::warn!(%error, "clients cannot be called: no thread can be started");
            }
            desk
        });
        let (client, notices, desk) = (Arc::downgrade(client), Arc::clone(&client.notices), desk.clone());
        Arc::new(Notified { client, volume, notices, desk })
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
            Effect::Revoked { .. }
            | Effect::Resume { .. }
            | Effect::Notify { .. }
            | Effect::Remove { .. } => {}
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
    client.callbacks.call(client, callback);
}
