//! Snapshots, and long operations.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::client::transport::Request;
use crate::model::{NewClone, NewSnapshot, Operation, Restore, Snapshot, SnapshotPatch};
use crate::path::encoded;
use crate::{JSON, MERGE_PATCH};

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

    /// Starts the revert of a volume to a snapshot.
    pub fn revert(&self, options: &ChangeOptions, volume: &str, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::post(one(volume, name) + "/revert")))
    }

    /// Starts to make a volume from a snapshot.
    pub fn clone_volume(
        &self,
        options: &ChangeOptions,
        volume: &str,
        name: &str,
        new: &NewClone,
    ) -> Result<Operation> {
        let request = options.apply(Request::post(one(volume, name) + "/clone"));
        self.value(&request.body(JSON, &to_json(new)?))
    }

    /// Starts to restore files of a snapshot.
    pub fn restore_files(&self, volume: &str, name: &str, files: &Restore) -> Result<Operation> {
        let request = Request::post(one(volume, name) + "/restore");
        self.value(&request.body(JSON, &to_json(files)?))
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
