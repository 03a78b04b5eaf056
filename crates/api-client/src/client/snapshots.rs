//! Snapshots, and long operations.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::MERGE_PATCH;
use crate::client::transport::Request;
use crate::model::{NewSnapshot, Operation, Snapshot, SnapshotPatch};
use crate::path::encoded;

impl Client {
    /// All snapshots of a volume, by name.
    pub fn snapshots(&self, volume: &str) -> Result<Vec<Snapshot>> {
        self.all(&Request::get(all(volume)))
    }

    /// A snapshot.
    pub fn snapshot(&self, volume: &str, name: &str) -> Result<Tagged<Snapshot>> {
        self.tagged(Request::get(one(volume, name)))
    }

    /// Makes a snapshot.
    pub fn create_snapshot(&self, volume: &str, new: &NewSnapshot) -> Result<Created<Snapshot>> {
        self.made(Request::post(all(volume)), new)
    }

    /// Changes a snapshot.
    pub fn change_snapshot(
        &self,
        options: &ChangeOptions,
        volume: &str,
        name: &str,
        patch: &SnapshotPatch,
    ) -> Result<Tagged<Snapshot>> {
        let request = options.apply(Request::patch(one(volume, name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Starts the deletion of a snapshot.
    pub fn delete_snapshot(&self, options: &ChangeOptions, volume: &str, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(one(volume, name))))
    }

    /// Asks a long operation to end early.
    pub fn cancel_operation(&self, id: u64) -> Result<Operation> {
        self.value(&Request::post(format!("/v1/operations/{id}/cancel")))
    }
}

fn all(volume: &str) -> String {
    path("volumes", volume) + "/snapshots"
}

fn one(volume: &str, name: &str) -> String {
    format!("{}/{}", all(volume), encoded(name))
}
