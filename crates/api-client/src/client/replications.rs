//! Replications.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::MERGE_PATCH;
use crate::client::transport::Request;
use crate::model::{NewReplication, Operation, Replication, ReplicationPatch};

impl Client {
    /// All replications, by destination.
    pub fn replications(&self) -> Result<Vec<Replication>> {
        self.all(&Request::get("/v1/replications"))
    }

    /// The replication to a volume.
    pub fn replication(&self, volume: &str) -> Result<Tagged<Replication>> {
        self.tagged(Request::get(path("replications", volume)))
    }

    /// Makes a replication, and starts its first transfer.
    pub fn create_replication(&self, new: &NewReplication) -> Result<Created<Replication>> {
        self.made(Request::post("/v1/replications"), new)
    }

    /// Makes a replication, also if the volume loses changes.
    pub fn force_replication(&self, new: &NewReplication) -> Result<Created<Replication>> {
        self.made(Request::post("/v1/replications").query("force", "true"), new)
    }

    /// Changes a replication.
    pub fn change_replication(
        &self,
        options: &ChangeOptions,
        volume: &str,
        patch: &ReplicationPatch,
    ) -> Result<Tagged<Replication>> {
        let request = options.apply(Request::patch(path("replications", volume)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Starts a transfer.
    pub fn sync_replication(&self, volume: &str) -> Result<Operation> {
        self.value(&Request::post(path("replications", volume) + "/sync"))
    }

    /// Makes the destination writable.
    pub fn break_replication(&self, options: &ChangeOptions, volume: &str) -> Result<Tagged<Replication>> {
        self.act(options, volume, "break")
    }

    /// Has the destination follow its source again.
    pub fn resume_replication(&self, options: &ChangeOptions, volume: &str) -> Result<Tagged<Replication>> {
        self.act(options, volume, "resume")
    }

    /// Has the source follow the destination.
    pub fn reverse_replication(&self, options: &ChangeOptions, volume: &str) -> Result<Tagged<Replication>> {
        self.act(options, volume, "reverse")
    }

    fn act(&self, options: &ChangeOptions, volume: &str, verb: &str) -> Result<Tagged<Replication>> {
        self.tagged(options.apply(Request::post(format!("{}/{verb}", path("replications", volume)))))
    }

    /// Removes a replication that is stopped. Both volumes stay.
    pub fn delete_replication(&self, options: &ChangeOptions, volume: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("replications", volume))))
    }
}
