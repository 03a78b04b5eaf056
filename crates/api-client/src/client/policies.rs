//! Policies of snapshots.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::MERGE_PATCH;
use crate::client::transport::Request;
use crate::model::{NewPolicy, Operation, Policy, PolicyPatch};

impl Client {
    /// All policies, by name.
    pub fn policies(&self) -> Result<Vec<Policy>> {
        self.all(&Request::get("/v1/policies"))
    }

    /// A policy.
    pub fn policy(&self, name: &str) -> Result<Tagged<Policy>> {
        self.tagged(Request::get(path("policies", name)))
    }

    /// Makes a policy.
    pub fn create_policy(&self, new: &NewPolicy) -> Result<Created<Policy>> {
        self.made(Request::post("/v1/policies"), new)
    }

    /// Changes a policy.
    pub fn change_policy(
        &self,
        options: &ChangeOptions,
        name: &str,
        patch: &PolicyPatch,
    ) -> Result<Tagged<Policy>> {
        let request = options.apply(Request::patch(path("policies", name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Removes a policy without volumes.
    pub fn delete_policy(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("policies", name))))
    }
}
